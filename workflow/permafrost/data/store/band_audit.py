"""Check whether train pixels contradict the declared bands: their names, order or units.

A warning stops nothing. Each rule was tested on real images with their bands in the true order,
where it is silent, and with any two of them swapped; the thresholds separate both cases. Plants
reveal the order of optical bands: reflectance of any vegetation increases from red over the red
edge to the infrared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.entry import PICTURES

#: limit for the share of pixels with infrared below red; real datasets on land reach 0.63, towns in
#: winter
_DARK_INFRARED = 0.75
#: added for few images, which may show only sealed ground: this value over the root of their
#: number. Of 120 NAIP images of towns, means of 1 to 32 drawn ones exceeded the limit in at most
#: one of 1,000 draws; 42 single ones exceed 0.75
_OF_FEW = 0.25
_VISIBLE = ("coastal", "blue", "green", "red")
_INFRARED = ("rededge2", "rededge3", "nir", "nir08")
#: pixels whose median infrared is at least this many times their median visible reflectance count
#: as plants
_PLANTS = 2.0
#: minimum number of plant pixels, and the share of them that must contradict the order; at most
#: 0.05 of real ones do
_FEWEST_PLANTS = 100
_AGAINST = 0.25
#: for plants, the first band is darker than the second
_RISES = (
    *product(_VISIBLE, _INFRARED),
    ("red", "rededge1"),
    ("rededge1", "rededge2"),
    ("rededge2", "rededge3"),
    ("swir22", "swir16"),
)
#: the atmosphere is bright in blue, so this rule needs surface reflectance
_RISES_AT_SURFACE = ("blue", "green")
#: radar: cross-polarised backscatter is weaker than co-polarised
_TURNED = (("vh", "vv"), ("hv", "hh"))
_MOST_TURNED = 0.5
#: limits for the mean reflectance of a band
_LOWEST, _HIGHEST = -0.01, 1.5
#: limit for the brightest pixel of any band; the smallest value of real data is 0.49
_TOO_DARK = 0.03
_SHOWN = 3
_KELVIN = (150.0, 400.0)
_LONGEST_REFLECTED_NM = 3000
_OPTICAL = ("digital_number", "reflectance")
_BRIGHTNESS = (*_OPTICAL, *PICTURES)


def doubts(
    bands: Sequence[dict], selected: Sequence[str], statistics: BandStatistics
) -> list[dict]:
    """The card's ``audit.bands``: ``{"bands": [names], "found": sentence}`` for each contradiction.

    Parameters
    ----------
    bands : as in the card, with statistics of stored values.
    selected : names of the bands offered to backbones; others are not checked.
    """
    chosen = [(number, band) for number, band in enumerate(bands) if band["name"] in set(selected)]
    stored = statistics.sample.pixels
    pixels = {
        band["name"]: stored[number] * float(band["scale"]) + band["offset"]
        for number, band in chosen
    }
    bands, images = [band for _, band in chosen], len(statistics.sample.kept)
    counted = {band["name"]: statistics.values[number] for number, band in chosen}
    found = [
        *_constant(bands),
        *_identical(bands, counted),
        *_out_of_range(bands),
        *(doubt for group in _groups(bands) for doubt in _wrong_order(group, pixels, images)),
    ]
    return [{"bands": names, "found": sentence} for names, sentence in found]


type _Doubts = Iterator[tuple[list[str], str]]


def _constant(bands: list[dict]) -> _Doubts:
    for band in bands:
        if band["min"] == band["max"]:
            yield [band["name"]], f"{band['name']} is {band['min']:g} in every pixel"


def _identical(bands: list[dict], counted: dict) -> _Doubts:
    alike: dict[tuple, list[str]] = {}
    for band in bands:
        if band["min"] < band["max"]:
            values = counted[band["name"]]
            key = (band["mean"], band["std"], values.low, values.counts.tobytes())
            alike.setdefault(key, []).append(band["name"])
    for names in alike.values():
        if len(names) > 1:
            yield names, f"{_listed(names)} hold the same values, each as often"


def _out_of_range(bands: list[dict]) -> _Doubts:
    """Warnings for values that are impossible on Earth in the declared unit."""
    for band in bands:
        name, mean = band["name"], _physical(band, "mean")
        if band["unit"] == "db" and mean > 0:
            yield [name], f"{name} is declared in dB, and its mean is {mean:.3g} dB"
        if band["unit"] == "linear_power" and _physical(band, "min") < 0:
            yield [name], f"{name} is declared as power, and falls to {_physical(band, 'min'):.3g}"
        if band["unit"] == "kelvin" and not _KELVIN[0] <= mean <= _KELVIN[1]:
            yield [name], f"{name} is declared in kelvin, and its mean is {mean:.3g}"
        if _reflects(band, _OPTICAL) and not _LOWEST <= mean <= _HIGHEST:
            yield (
                [name],
                f"{name} has a mean reflectance of {mean:.3g} by its unit, scale and offset",
            )
    reflecting = [band for band in bands if _reflects(band, _BRIGHTNESS)]
    brightest = max((_physical(band, "max") for band in reflecting), default=1.0)
    if brightest < _TOO_DARK:
        names = [band["name"] for band in reflecting]
        yield (
            names,
            f"the brightest value of {_listed(names)} is {brightest:.2g} of 1 by unit and scale",
        )


def _groups(bands: list[dict]) -> list[dict[str, dict]]:
    """Common name -> band, for bands with comparable values: same sensor, orbit and unit."""
    groups: dict[tuple, dict[str, dict]] = {}
    for band in bands:
        if band["common_name"]:
            key = tuple(band.get(field) for field in ("sensor", "orbit", "unit"))
            groups.setdefault(key, {}).setdefault(band["common_name"], band)
    return list(groups.values())


def _wrong_order(group: dict[str, dict], pixels: dict[str, np.ndarray], images: int) -> _Doubts:
    for turned, straight in _TURNED:
        if turned in group and straight in group:
            names = [group[turned]["name"], group[straight]["name"]]
            share = _share(pixels[names[0]] > pixels[names[1]])
            if share > _MOST_TURNED:
                yield names, f"{names[0]} is above {names[1]} in {share:.0%} of the pixels"
    if not {"red", "nir"} <= set(group) or group["red"]["unit"] not in _BRIGHTNESS:
        return
    red, nir = (group[name]["name"] for name in ("red", "nir"))
    share = _share(pixels[nir] < pixels[red])
    if share > _DARK_INFRARED + _OF_FEW / max(images, 1) ** 0.5:
        yield (
            [nir, red],
            f"{nir} (nir) is below {red} (red) in {share:.0%} of the pixels, as over water alone",
        )
    if group["red"]["unit"] in _OPTICAL:
        yield from _wrong_over_plants(group, pixels)


def _wrong_over_plants(group: dict[str, dict], pixels: dict[str, np.ndarray]) -> _Doubts:
    # medians, so that one misplaced band does not hide the plants
    light, infrared = (
        np.median([pixels[group[name]["name"]] for name in names if name in group], axis=0)
        for names in (_VISIBLE, _INFRARED)
    )
    plants = infrared > _PLANTS * light
    if plants.sum() < _FEWEST_PLANTS:
        return
    surface = [_RISES_AT_SURFACE] if group["red"].get("level") == "L2A" else []
    against = []
    for low, high in (*_RISES, *surface):
        if low in group and high in group:
            names = [group[low]["name"], group[high]["name"]]
            share = _share((pixels[names[0]] > pixels[names[1]])[plants])
            if share > _AGAINST:
                said = f"{names[0]} ({low}) is above {names[1]} ({high}) in {share:.0%}"
                against.append((share, names, said))
    if against:
        against.sort(key=lambda one: -one[0])
        bands = dict.fromkeys(name for _, pair, _ in against for name in pair)
        said = ", ".join(sentence for _, _, sentence in against[:_SHOWN])
        more = f", and {len(against) - _SHOWN} more pairs" if len(against) > _SHOWN else ""
        yield list(bands), f"{said}{more} of the pixels with plants"


def _share(where: np.ndarray) -> float:
    return float(where.mean()) if where.size else 0.0


def _reflects(band: dict, units: tuple[str, ...]) -> bool:
    """Whether the band measures reflected sunlight from the surface; a cirrus band does not."""
    known = band["wavelength_nm"] is not None and band["wavelength_nm"] < _LONGEST_REFLECTED_NM
    return known and band["unit"] in units and band["common_name"] != "cirrus"


def _physical(band: dict, key: str) -> float:
    return band[key] * band["scale"] + band["offset"]


def _listed(names: list[str]) -> str:
    if len(names) > 5:
        return f"{', '.join(names[:4])} and {len(names) - 4} more bands"
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
