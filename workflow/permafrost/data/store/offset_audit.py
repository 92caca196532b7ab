"""Check whether Sentinel-2's offset of 1000 remains in all or some train images, or was subtracted wrongly.

Since processing baseline 04.00 (25 January 2022), products hold ``10000 * reflectance + 1000``.
Shade, water and plants reflect almost nothing in some visible band, so the darkest percent of an
image's pixels is near 0, and near 0.1 in every band if the offset remains. Colour excludes bright
land: deserts are much darker in blue than in red, and snow and clouds are far above 0.1 in visible
bands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.data.bands.statistics import PixelSample
from permafrost.data.records import Record
from permafrost.data.store.cleaning import is_ordered

SINCE = "2022-01-25"
_OPTICAL = ("digital_number", "reflectance")
#: percentage of an image's pixels that count as its darkest
_DARKEST = 1
_FEWEST_PIXELS = 16
#: limits of their reflectance with the offset: minimum in every band, maximum in the darkest and in
#: visible bands
_LEAST, _DARK, _VISIBLE = 0.095, 0.14, 0.18
#: maximum for the darkest image of all
_DARKEST_OF_ALL = 0.125
#: maximum difference of blue and red: sand is redder, shaded snow is bluer
_TINT = 0.03
#: minimum contribution of the atmosphere at level L1C
_AIR = {"coastal": 0.08, "blue": 0.05, "green": 0.03, "red": 0.015}
#: minimum of the darkest pixels of real images
_NEGATIVE = -0.05
#: all images are assumed to have the offset if at most this share is darker, and this share looks
#: like it
_DARKER, _LOOK_SO = 0.02, 0.2
#: some images have the offset if this share looks like it, and this many times as many as are
#: almost as bright
_SOME, _NEARLY, _TIMES = 0.1, 0.05, 1.5


def offset_doubt(
    bands: Sequence[dict],
    selected: Sequence[str],
    sample: PixelSample,
    records: Sequence[Record] | None = None,
) -> dict | None:
    """A warning in the form of `band_audit.doubts`, with ``offset``: what happened to which images,
    in words; else None.

    Parameters
    ----------
    bands : of a modality, as in the card.
    selected : names of the bands offered to backbones; others are not checked.
    sample : stored pixel values of train.
    records : of train, for their dates; None if samples have several dates.
    """
    chosen = [
        (number, band)
        for number, band in enumerate(bands)
        if band["name"] in set(selected)
        and (band["sensor"] or "").startswith("sentinel2")
        and band["unit"] in _OPTICAL
    ]
    positions = [number for number, _ in chosen]
    common = [band["common_name"] for _, band in chosen]
    if not {"blue", "green", "red"} & set(common):
        return None
    darkest, samples = _darkest(sample, positions)
    if not len(darkest):
        return None
    scale, offset = (
        np.array([float(band[key]) for _, band in chosen]) for key in ("scale", "offset")
    )
    air = [_AIR.get(band["common_name"], 0) * (band.get("level") == "L1C") for _, band in chosen]
    darkest = darkest * scale + offset - air
    lowest = darkest.min(axis=1)
    names = [band["name"] for _, band in chosen]
    negative = lowest < _NEGATIVE
    if offset.min() < 0 and negative.mean() >= _SOME:
        found = f"{_how_many(negative)} fall to a reflectance of {np.median(lowest[negative]):.2f}, as where"
        found += " the entry subtracts Sentinel-2's offset of 1000 from values that do not have it"
        return {
            "bands": names,
            "found": found,
            "offset": f"subtracted without need in {_how_many(negative)}",
        }
    days = [None if records is None else records[one].date for one in samples]
    days = [day if is_ordered(day) else None for day in days]
    having = _with_offset(darkest, common, np.array([(day or "") >= SINCE for day in days]))
    if having is None:
        return None
    known = sorted(day for day, has in zip(days, having, strict=True) if has and day)
    when = f" ({known[0]} to {known[-1]})" if known else ""
    found = f"{_how_many(having)}{when} have a reflectance of {np.median(lowest[having]):.2f} or more in every band, as"
    found += " where Sentinel-2's offset of 1000 (since baseline 04.00) is not subtracted"
    return {"bands": names, "found": found, "offset": f"left in {_how_many(having)}"}


def _with_offset(
    darkest: np.ndarray, common: list[str | None], late: np.ndarray
) -> np.ndarray | None:
    """(n,) bool, which images have the offset; None if there is no evidence.

    Parameters
    ----------
    darkest : (n, C) reflectance of the darkest pixels.
    late : (n,) bool, True for images known to be from `SINCE` or later.
    """
    lowest = darkest.min(axis=1)
    visible = [number for number, name in enumerate(common) if name in ("blue", "green", "red")]
    look_so = (lowest >= _LEAST) & (lowest <= _DARK) & (darkest[:, visible].max(axis=1) <= _VISIBLE)
    if {"red", "blue"} <= set(common):
        tint = darkest[:, common.index("red")] - darkest[:, common.index("blue")]
        look_so &= np.abs(tint) <= _TINT
    for whole in (np.ones_like(late), late):
        of_these = lowest[whole]
        if (
            look_so[whole].sum() > _LOOK_SO * len(of_these)
            and (of_these < _LEAST).sum() <= _DARKER * len(of_these)
            and of_these[of_these >= _LEAST].min() <= _DARKEST_OF_ALL
        ):
            return whole
    nearly = ((lowest >= _NEARLY) & (lowest < _LEAST)).sum()
    enough = max(2, _SOME * len(lowest), _TIMES * nearly)
    return look_so if look_so.sum() >= enough else None


def _darkest(sample: PixelSample, positions: list[int]) -> tuple[np.ndarray, list[int]]:
    """(n, C) stored values of the darkest pixels of each image (each date separately), and its sample number."""
    found, samples = [], []
    for number, dates, pixels in sample.kept:
        for image in np.array_split(pixels[positions], dates, axis=1):
            image = image[:, image.any(axis=0)]
            if image.shape[1] >= _FEWEST_PIXELS:
                found.append(np.percentile(image, _DARKEST, axis=1))
                samples.append(number)
    return np.reshape(found, (-1, len(positions))), samples


def _how_many(images: np.ndarray) -> str:
    return "all images" if images.all() else f"{images.sum()} of {len(images)} images"
