"""A scene of the world: layout of land covers, and its simulated image."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.data.world import covers, fields, spectra

CLASSES = list(covers.COVERS)
#: mask value of cloudy pixels
CLOUD = 255
_STEP = 4  # covers are laid out on a grid of 40 m and enlarged


@dataclass(frozen=True)
class SceneSpec:
    """All parameters of a scene."""

    seed: int
    number: int
    size: int
    clouds: bool = False

    #: metres per pixel, and the offset of its upper left corner from its origin, down and right
    pixel_m: ClassVar[float] = 10.0
    corner_m: ClassVar[tuple[float, float]] = (0.0, 0.0)

    def rng(self, part: str, date: int = 0) -> np.random.Generator:
        """Random numbers for a part of the scene; `date` is the index of an image among several."""
        part = f"{part} {date}" if date else part
        # clouds are not part of the seed because they must not change the layout
        return np.random.default_rng(derive_seed("world", self.seed, self.number, self.size, part))


@functools.lru_cache(maxsize=64)
def layout(spec: SceneSpec) -> np.ndarray:
    """Class ids (size, size) uint8, read-only; the classes have about equal areas."""
    rng = spec.rng("layout")
    small = spec.size // _STEP
    levels = np.stack([fields.smooth_noise(rng, small, 11, rough=0.12) for _ in CLASSES])
    levels += _height_preference(rng, small)
    bias = np.zeros((len(CLASSES), 1, 1), np.float32)
    for _ in range(40):
        # adjust the classes towards equal shares; the remaining difference is natural variation
        share = np.bincount((levels + bias).argmax(0).ravel(), minlength=len(CLASSES)) / small**2
        bias[:, 0, 0] += 0.6 * (1 / len(CLASSES) - share)
    fine = np.stack([fields.enlarge(level, _STEP) for level in levels + bias])
    truth = fine.argmax(0).astype(np.uint8)
    truth.flags.writeable = False
    return truth


def _height_preference(rng, small: int) -> np.ndarray:
    """Water is low, forest and scrub high, towns between: neighbouring covers are plausible."""
    height = fields.smooth_noise(rng, small, 20)
    liking = {
        "water": -0.9,
        "forest": 0.7,
        "scrubland": 0.6,
        "residential": -0.3,
        "industrial": -0.4,
    }
    return np.stack([liking.get(name, 0.0) * height for name in CLASSES])


def clouds(spec: SceneSpec, date: int = 0) -> np.ndarray:
    """Share of cloud per pixel, float32 (size, size); thick in one corner of the scene or nowhere."""
    rng = spec.rng("clouds", date)
    amount = rng.uniform(0.9, 2.2)
    return 0.95 * fields.soft_step(fields.smooth_noise(rng, spec.size, 20, rough=0.3), amount, 1.4)


def mask(spec: SceneSpec) -> np.ndarray:
    """Labels per pixel, uint8: class ids, `CLOUD` where clouds hide the ground."""
    truth = layout(spec).copy()
    if spec.clouds:
        truth[hidden(spec)] = CLOUD
    return truth


def hidden(spec: SceneSpec, date: int = 0) -> np.ndarray:
    """Where clouds are too thick to see the ground, bool (size, size)."""
    return clouds(spec, date) > 0.3


def render(spec: SceneSpec, bands: list[str]) -> np.ndarray:
    """Digital numbers (C, size, size) uint16, reflectance times 10,000."""
    rng = spec.rng("render")
    shares = materials(rng, layout(spec), season(rng))
    return expose(spec, bands, shares, light(rng, spec.size), rng)


def expose(
    spec: SceneSpec,
    bands: list[str],
    shares: np.ndarray,
    sunlight: np.ndarray,
    air: np.random.Generator,
    date: int = 0,
) -> np.ndarray:
    """The recorded image, in the form of `render`.

    Parameters
    ----------
    shares : of materials, see `materials`; sunlight : see `light`.
    air : random numbers of the haze.
    """
    columns = [spectra.BANDS.index(band) for band in bands]
    reflectance = np.tensordot(spectra.REFLECTANCE[:, columns], shares, axes=(0, 0))
    reflectance *= sunlight
    reflectance += haze(air, spec.size, columns)
    if spec.clouds:
        cover = clouds(spec, date)
        cloud = spectra.REFLECTANCE[spectra.MATERIALS.index("cloud"), columns]
        reflectance += cover * (cloud[:, None, None] - reflectance)
    reflectance = _blur_coarse(reflectance, spectra.COARSE[columns])
    for plane, band in zip(reflectance, bands, strict=True):
        # independent noise per band, so that requesting fewer bands changes none of them
        noise = spec.rng(f"noise {band}", date).standard_normal(plane.shape, dtype=np.float32)
        plane += noise * (0.002 + 0.02 * plane)
    return np.rint(np.clip(reflectance, 1e-4, 1.6) * 10_000).astype(np.uint16)


def season(rng: np.random.Generator) -> covers.Season:
    return covers.Season(
        dryness=rng.uniform(0.15, 0.85),
        broadleaf=rng.uniform(-0.2, 1.0),
        harvest=rng.uniform(-0.3, 0.3),
    )


def materials(rng: np.random.Generator, truth: np.ndarray, season: covers.Season) -> np.ndarray:
    """Share of each material per pixel, (M, size, size) float32; `truth` has the ids of covers."""
    shares = np.zeros((len(spectra.MATERIALS), *truth.shape), np.float32)
    for number, cover in enumerate(covers.COVERS.values()):
        site = fields.Site(rng, truth == number)
        for material, share in cover(site, season).items():
            shares[spectra.MATERIALS.index(material)][site.here] = share
    return shares


def light(
    rng: np.random.Generator, size: int, sun: np.random.Generator | None = None
) -> np.ndarray:
    """Sunlight on slopes: one factor per scene, and hillshade of rolling ground; `sun` defaults to `rng`."""
    ground = fields.smooth_noise(rng, size, 16)
    down, right = np.gradient(ground)
    sun = rng if sun is None else sun
    angle = sun.uniform(0, 2 * np.pi)
    slope = np.cos(angle) * right + np.sin(angle) * down
    return (sun.uniform(0.88, 1.12) * (1 + 0.08 * slope / slope.std())).astype(np.float32)


def haze(rng, size: int, columns: list[int]) -> np.ndarray:
    """Path radiance of each band, (C, size, size); `columns` are positions in `spectra.BANDS`."""
    veil = rng.uniform(0.0, 0.03) * (1 + 0.15 * fields.smooth_noise(rng, size, 60))
    return spectra.HAZE[columns, None, None] * veil


def _blur_coarse(reflectance: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """Means over 2 x 2 pixels for the bands with pixels of 20 m or larger."""
    _, height, width = reflectance.shape
    blocks = reflectance[coarse].reshape(coarse.sum(), height // 2, 2, width // 2, 2).mean((2, 4))
    reflectance[coarse] = blocks.repeat(2, axis=1).repeat(2, axis=2)
    return reflectance
