"""Images of land as Sentinel-2 sees it, of spectra, shade and air that are known."""

from __future__ import annotations

import numpy as np

BANDS = ["B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B11", "B12"]
# reflectance, typical of the surface
_SPECTRA = {
    "forest": (0.02, 0.025, 0.045, 0.025, 0.07, 0.20, 0.25, 0.27, 0.29, 0.30, 0.12, 0.05),
    "crop": (0.03, 0.045, 0.08, 0.05, 0.12, 0.30, 0.37, 0.40, 0.42, 0.42, 0.22, 0.11),
    "soil": (0.07, 0.09, 0.13, 0.18, 0.21, 0.23, 0.25, 0.27, 0.29, 0.30, 0.36, 0.30),
    "sand": (0.10, 0.14, 0.22, 0.32, 0.36, 0.39, 0.42, 0.44, 0.47, 0.48, 0.56, 0.50),
    "pale sand": (0.13, 0.18, 0.26, 0.34, 0.37, 0.40, 0.43, 0.45, 0.47, 0.48, 0.55, 0.48),
    "water": (0.03, 0.035, 0.03, 0.015, 0.012, 0.01, 0.01, 0.008, 0.007, 0.006, 0.004, 0.003),
    "snow": (0.90, 0.92, 0.92, 0.90, 0.89, 0.87, 0.85, 0.84, 0.82, 0.75, 0.08, 0.06),
    "cloud": (0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.50, 0.45, 0.35),
    "rock": (0.06, 0.07, 0.09, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.16, 0.20, 0.17),
    "town": (0.09, 0.11, 0.13, 0.15, 0.16, 0.18, 0.20, 0.21, 0.22, 0.22, 0.24, 0.20),
}
# what the air adds at level L1C
_AIR = (0.09, 0.065, 0.04, 0.022, 0.018, 0.015, 0.012, 0.01, 0.008, 0.0, 0.003, 0.001)
#: kind of world -> how much of it is what
WORLDS = {
    "land": {"forest": 3, "crop": 3, "soil": 1, "water": 0.5, "town": 0.5},
    "dark": {"forest": 3, "water": 3, "rock": 1},
    "forest": {"forest": 1},
    "desert": {"sand": 3, "pale sand": 2, "soil": 1, "rock": 0.5},
    "sand": {"sand": 1, "pale sand": 1},
    "soil": {"soil": 1},
    "arctic": {"snow": 4, "rock": 1, "water": 0.5},
    "snow": {"snow": 1},
    "bright": {"cloud": 3, "pale sand": 1, "town": 1},
    "rock": {"rock": 1},
    "town": {"town": 1},
    "deserts and forests": {"forest": 1, "sand": 1},
}


def world(kind: str, *, count: int = 40, level: str = "l2a", seed: int = 0) -> list[np.ndarray]:
    """Images (12, 64, 64) of reflectance, each another mixture of what the world has, in patches of 4 pixels."""
    generator = np.random.default_rng(seed)
    spectra = np.array([_SPECTRA[name] for name in WORLDS[kind]])
    amounts = np.array(list(WORLDS[kind].values()), float)
    images = []
    for _ in range(count):
        mixture = generator.dirichlet(2 * amounts / amounts.sum())
        patches = generator.choice(len(spectra), (16, 16), p=mixture)
        ground = spectra[patches.repeat(4, axis=0).repeat(4, axis=1)].transpose(2, 0, 1)
        shade = generator.normal(1, 0.15, (64, 64)).clip(0.2, 1.6)
        image = ground * shade * np.exp(generator.normal(0, 0.05, ground.shape))
        images.append(image + (level == "l1c") * np.array(_AIR)[:, None, None])
    return images
