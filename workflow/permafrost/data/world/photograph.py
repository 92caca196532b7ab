"""Simulated aerial photograph of a view: sun, shadows, haze, and 8 bits per band."""

from __future__ import annotations

import numpy as np

from permafrost.data.world import fields, scene, spectra
from permafrost.data.world.aerial import MARGIN, View, ViewSpec
from permafrost.data.world.canvas import GROUND, PIXEL_M

#: band of the photograph -> the corresponding Sentinel-2 band of the materials
BANDS = {"red": "B04", "green": "B03", "blue": "B02", "nir": "B08"}
#: reflectance recorded as 255, and the exponent of the camera's response
_WHITE = {"red": 0.33, "green": 0.30, "blue": 0.29, "nir": 0.65}
_GAMMA = 1 / 1.8


def photograph(spec: ViewSpec, view: View, bands: list[str]) -> np.ndarray:
    """Brightness (C, size, size) uint8 of the view, without its margin."""
    columns = [spectra.BANDS.index(BANDS[band]) for band in bands]
    rng = spec.rng("light")
    reflectance = _surface(spec, view, columns) * _light(rng, view, columns)
    reflectance += scene.haze(rng, view.canvas.size, columns)
    reflectance = _blur(reflectance)[:, MARGIN:-MARGIN, MARGIN:-MARGIN]
    image = np.empty(reflectance.shape, np.uint8)
    for number, (plane, band) in enumerate(zip(reflectance, bands, strict=True)):
        # independent noise per band, so that requesting fewer bands changes none of them
        noise = spec.rng(f"noise {band}").standard_normal(plane.shape, dtype=np.float32)
        plane = np.clip((plane + noise * (0.001 + 0.02 * plane)) / _WHITE[band], 0, 1)
        image[number] = np.rint(255 * plane**_GAMMA)
    return image


def _surface(spec: ViewSpec, view: View, columns: list[int]) -> np.ndarray:
    """Reflectance (C, size, size) of the topmost surface, with the texture of each object."""
    top = view.canvas.top
    bare = np.tensordot(spectra.REFLECTANCE[:, columns], view.ground, axes=(0, 0))
    things = np.concatenate(
        [np.zeros((1, len(columns)), np.float32), view.reflectances[:, columns]]
    )
    reflectance = np.where(top == GROUND, bare, things[top].transpose(2, 0, 1))
    texture = fields.smooth_noise(spec.rng("texture"), view.canvas.size, 1.6, rough=0.6)
    return reflectance * np.exp(view.rough[top] * texture)


def _light(rng: np.random.Generator, view: View, columns: list[int]) -> np.ndarray:
    """Light per band (C, size, size), 1 on flat sunlit ground: direct light by slope and shadow, and sky light."""
    canvas = view.canvas
    brightness = rng.uniform(0.88, 1.12)
    # in the northern hemisphere the sun is in the south
    azimuth, height = rng.uniform(np.radians(115), np.radians(245)), np.radians(rng.uniform(40, 60))
    to_sun = np.cos(height) * np.array([-np.cos(azimuth), np.sin(azimuth)])
    rise = canvas.slope[0] * to_sun[0] + canvas.slope[1] * to_sun[1]
    facing = (np.sin(height) - rise) / np.sqrt(1 + (canvas.slope**2).sum(axis=0))
    # leaves scatter: half the contrast of a hard surface
    direct = 0.35 + 0.65 * np.clip(facing / np.sin(height), 0, 1.5)
    hidden = shadows(canvas.height, to_sun / np.cos(height) / np.tan(height))
    crown = np.array([False, *(thing.crown is not None for thing in view.things)])[canvas.top]
    # some light passes through the leaves to a crown's far side
    lit = 1 - _blur(hidden[None] * np.where(crown, 0.65, 1))[0]
    sky = 0.2 + 0.34 * spectra.HAZE[columns, None, None]
    return (brightness * (sky + (1 - sky) * direct * lit)).astype(np.float32)


def shadows(height: np.ndarray, to_sun: np.ndarray) -> np.ndarray:
    """Shadows, bool (size, size).

    Parameters
    ----------
    height : (size, size) metres.
    to_sun : metres down and right, towards the sun, over which a ray rises by one metre.
    """
    hidden = np.zeros(height.shape, bool)
    far = float(np.hypot(*to_sun)) / PIXEL_M
    for step in range(1, int(np.ceil(height.max() * far)) + 1):
        down, right = np.rint(to_sun / PIXEL_M * (step / far)).astype(int)
        here, there = _shifted(height.shape, down, right)
        # a tolerance of a quarter of a metre, so that leaves do not shade their neighbours
        hidden[here] |= height[there] > height[here] + (step / far + 0.25)
    return hidden


def _shifted(shape: tuple[int, int], down: int, right: int) -> tuple[tuple, tuple]:
    """Slices of the pixels that have a neighbour at this offset, and of those neighbours."""
    here, there = [], []
    for length, shift in zip(shape, (down, right), strict=True):
        here.append(slice(max(-shift, 0), length - max(shift, 0)))
        there.append(slice(max(shift, 0), length - max(-shift, 0)))
    return tuple(here), tuple(there)


def _blur(planes: np.ndarray) -> np.ndarray:
    """Optical blur: a kernel of 1 5 1 along both axes; the outermost pixels are unchanged."""
    planes = planes.astype(np.float32)
    for axis in (1, 2):
        blurred = planes.copy()
        inner = [slice(None)] * 3
        before, after = inner.copy(), inner.copy()
        inner[axis], before[axis], after[axis] = slice(1, -1), slice(None, -2), slice(2, None)
        blurred[tuple(inner)] = (
            5 * planes[tuple(inner)] + planes[tuple(before)] + planes[tuple(after)]
        ) / 7
        planes = blurred
    return planes
