"""Fields of crops in summer: only several dates reveal the crop.

Early and late crops go through the same stages at different times, so that only the order of dates
distinguishes them; on the last date both are as bare as fallow land, which was never green.
"""

from __future__ import annotations

import functools

import numpy as np

from permafrost.data.world import fields, scene, spectra

CROPS = ["meadow", "fallow", "early crop", "late crop"]
_MEADOW, _FALLOW, _EARLY, _LATE = range(4)
#: day of the year from which a crop is green, ripe, harvested
_CALENDAR = {_EARLY: (95, 152, 182), _LATE: (152, 212, 242)}
#: an image every 30 days from 15 April
FIRST, EVERY, DATES = np.datetime64("2021-04-15"), 30, 6
_JANUARY = np.datetime64("2021-01-01")
#: size of fields in pixels
_FIELD = 44


@functools.lru_cache(maxsize=64)
def _laid_out(spec: scene.SceneSpec) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Crops (size, size) uint8, and other fixed properties per pixel (size * size,); read-only."""
    site = fields.Site(spec.rng("farmland"), np.ones((spec.size, spec.size), bool))
    cell, border = site.parcels(_FIELD, stretch=1.4)
    crops = (site.per_cell(cell) * len(CROPS)).astype(np.uint8).reshape(spec.size, spec.size)
    crops.flags.writeable = False
    return crops, {
        # days by which a field is ahead of the calendar
        "ahead": 14 * (site.per_cell(cell) - 0.5),
        "dark": site.per_cell(cell),
        "dry": 0.3 * (site.per_cell(cell) - 0.5) + 0.1 * site.noise(6, rough=0.4),
        "margin": 0.6 * (1 - fields.soft_step(border, 0.6, 1.0)),
        "gaps": np.clip(0.15 + 0.08 * site.noise(8, rough=0.4), 0, 1),
    }


def layout(spec: scene.SceneSpec) -> np.ndarray:
    """Ids of `CROPS`, (size, size) uint8, read-only."""
    return _laid_out(spec)[0]


def visible(spec: scene.SceneSpec, cloudy: float) -> list[int]:
    """The cloud-free dates of a scene, at least two; each date is hidden with probability `cloudy`."""
    drawn = spec.rng("cloudy dates").random(DATES)
    clear = np.flatnonzero(drawn >= cloudy)
    return sorted(clear if len(clear) > 1 else np.argsort(-drawn)[:2])


def day(spec: scene.SceneSpec, date: int) -> np.datetime64:
    """Acquisition date of an image, up to five days from the nominal date."""
    return FIRST + EVERY * date + int(spec.rng("days", date).integers(-5, 6))


def render(spec: scene.SceneSpec, bands: list[str], dates: list[int]) -> np.ndarray:
    """Digital numbers (T, C, size, size) uint16 on `dates`."""
    images = []
    for date in dates:
        own = spec.rng("render", date)
        shares = _shares(spec, int((day(spec, date) - _JANUARY).astype(int)), own)
        sunlight = scene.light(spec.rng("ground"), spec.size, own)
        images.append(scene.expose(spec, bands, shares, sunlight, own, date))
    return np.stack(images)


def _shares(spec: scene.SceneSpec, today: int, own: np.random.Generator) -> np.ndarray:
    """Share of each material per pixel on a day of the year, (M, size, size) float32."""
    crops, fixed = _laid_out(spec)
    crop, grown = crops.ravel(), today + fixed["ahead"]
    green, ripe = np.zeros((2, crops.size), np.float32)
    for number, (sown, ripening, harvest) in _CALENDAR.items():
        here = crop == number
        green[here] = _between(grown[here], sown, ripening)
        ripe[here] = _between(grown[here], ripening, harvest)
    meadow = (crop == _MEADOW).astype(np.float32)
    dry = np.clip(own.uniform(0.1, 0.6) + fixed["dry"], 0, 1)
    sown = (1 - fixed["margin"]) * (1 - meadow)
    bare = sown * (fixed["gaps"] + (1 - fixed["gaps"]) * (1 - green - ripe))
    grass = 1 - sown
    found = {
        "grass": grass * (1 - dry),
        "dry_grass": grass * dry,
        "green_crop": sown * (1 - fixed["gaps"]) * green,
        "ripe_crop": sown * (1 - fixed["gaps"]) * ripe,
        "soil": bare * (1 - fixed["dark"]),
        "dark_soil": bare * fixed["dark"],
    }
    shares = np.zeros((len(spectra.MATERIALS), *crops.shape), np.float32)
    for material, share in found.items():
        shares[spectra.MATERIALS.index(material)] = share.reshape(crops.shape)
    return shares


def _between(day: np.ndarray, first: int, last: int) -> np.ndarray:
    """1 from the `first` day to the `last`, with edges of a week."""
    return fields.soft_step(day, first, 7) - fields.soft_step(day, last, 7)
