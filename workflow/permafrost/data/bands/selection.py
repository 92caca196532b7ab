"""The bands of a dataset, and the selection of bands by name."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.bands.sensors import SENSORS, Band

RGB = ("red", "green", "blue")


_COMMON_ALIASES = {
    "r": "red",
    "g": "green",
    "b": "blue",
    "n": "nir",
    "near_infrared": "nir",
    "nearinfrared": "nir",
    "coastal_aerosol": "coastal",
    "aerosol": "coastal",
    "nir_narrow": "nir08",
    "narrow_nir": "nir08",
    "rededge_1": "rededge1",
    "rededge_2": "rededge2",
    "rededge_3": "rededge3",
    "red_edge_1": "rededge1",
    "red_edge_2": "rededge2",
    "red_edge_3": "rededge3",
    "swir1": "swir16",
    "swir2": "swir22",
    "swir_1": "swir16",
    "swir_2": "swir22",
    "water_vapor": "water_vapour",
}

_MOST_SENSORS = 4


def known_band(sensor: str, name: str, *, where: object = None) -> Band:
    """The band `name` of a known sensor: its true name, padded or not, or its common name.

    Raises
    ------
    PermafrostError : the sensor is unknown or has no such band.
    """
    look_up(
        SENSORS,
        sensor,
        "unknown sensor",
        where=where,
        remedy="use a known sensor, or give each band's wavelength_nm and no sensor",
    )
    bands = list(SENSORS[sensor].values())
    try:
        return bands[_find(name, bands, where=where)]
    except PermafrostError as error:
        wanted = normal_name(name)
        others = [
            other
            for other, known in SENSORS.items()
            if any(wanted in (normal_name(band.name), band.common_name) for band in known.values())
        ]
        # files with few bands are often taken for those of a camera
        few = sorted(others, key=lambda other: len(SENSORS[other]))[:_MOST_SENSORS]
        more = f", or name the sensor of these files ({', '.join(few)}, …)" if few else ""
        raise PermafrostError(
            f"{error.problem}, as `sensor: {sensor}` says",
            where=where,
            remedy=f"{error.remedy}{more}",
        ) from None


def dataset_bands(declared: Sequence, sensor: str | None, *, where: object = None) -> list[Band]:
    """The bands of a dataset in file order, from its entry.

    Parameters
    ----------
    declared : names, or mappings with ``name`` and any of the fields of `Band`; fields that a
        mapping omits are those of the sensor's band of that name, if it has one.
    sensor : the sensor of all bands that do not name their own; None if it is not a known one.

    Raises
    ------
    PermafrostError : a band is declared twice, or the sensor is unknown.
    """
    bands = [_declared_band(item, sensor, where) for item in declared]
    names = [band.name for band in bands]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PermafrostError(
            f"bands are declared twice: {', '.join(twice)}",
            where=where,
            remedy="name each band once",
        )
    return bands


def _declared_band(item, sensor: str | None, where) -> Band:
    given = {"name": item} if isinstance(item, str) else dict(item)
    sensor = given.get("sensor") or sensor
    if sensor is None:
        return Band(**given)
    if isinstance(item, str) or not {"common_name", "wavelength_nm"} <= set(given):
        known = known_band(sensor, given["name"], where=where)
        given = {**known.as_dict(), **given}
    if isinstance(item, str):
        given["name"] = known.name
    return Band(**{**given, "sensor": sensor})


def select_bands(bands: Sequence, selection, *, where: object = None) -> list[int]:
    """Positions of the selected bands, in the order of the selection.

    Parameters
    ----------
    bands : `Band` objects, or the card's mappings with ``name`` and ``common_name``.
    selection : ``"all"``, ``"rgb"`` (red, green, blue), or a list of names. A name is the band's true
        name (``B02``, also unpadded ``B2``) or its common name (``blue``) where only one band has it; the name
        of a modality stands for all its bands.

    Raises
    ------
    PermafrostError : a name is unknown or belongs to several bands; lists what exists.
    """
    bands = [band if isinstance(band, Band) else _from_card(band) for band in bands]
    if selection == "all":
        return list(range(len(bands)))
    names = list(RGB) if selection == "rgb" else selection
    if isinstance(names, str) or not names:
        raise PermafrostError(
            f"bands are selected by 'all', 'rgb' or a list of names, not by {selection!r}; "
            f"{describe_bands(bands)}",
            where=where,
            remedy="correct the selection",
        )
    of_modality = {band.modality for band in bands} - {None}
    found = [
        position
        for name in names
        for position in (
            [i for i, band in enumerate(bands) if band.modality == name]
            if name in of_modality
            else [_find(name, bands, where=where)]
        )
    ]
    if len(set(found)) < len(found):
        raise PermafrostError(
            f"a band is selected twice in {list(names)}; {describe_bands(bands)}",
            where=where,
            remedy="name each band once",
        )
    return found


def describe_bands(bands: Sequence[Band]) -> str:
    """``the bands are B02 (blue), B03 (green), …``: ends every error about a band."""
    shown = [f"{b.name} ({b.common_name})" if b.common_name else b.name for b in bands]
    return "the bands are " + (", ".join(shown) or "none")


@functools.lru_cache(maxsize=4096)
def normal_name(name: str) -> str:
    """A band name in the form used for comparison: ``S2_B2``, ``b02`` -> ``b02``."""
    text = re.sub(r"^(s[123]|sentinel[123]|l[5789])[_\-:]", "", str(name).strip().lower())
    number = re.fullmatch(r"b(?:and)?[_\- ]?0*(\d+)(a?)", text) or re.fullmatch(
        r"0*(\d+)(a?)", text
    )
    if number:
        digits, letter = number.groups()
        return f"b{digits}{letter}" if letter else f"b{int(digits):02d}"
    text = re.sub(r"[\s\-]+", "_", text)
    return _COMMON_ALIASES.get(text, text)


def _find(name: str, bands: Sequence[Band], *, where: object = None) -> int:
    """Position of the only band that `name` matches: the exact name first, then other spellings."""
    exact = [i for i, band in enumerate(bands) if band.name == name]
    wanted = normal_name(name)
    spelled = [i for i, band in enumerate(bands) if normal_name(band.name) == wanted]
    common = [i for i, band in enumerate(bands) if band.common_name == wanted]
    for hits in (exact, spelled, common):
        if len(hits) == 1:
            return hits[0]
        if hits:
            raise PermafrostError(
                f"the band {name!r} is ambiguous: {', '.join(bands[i].name for i in hits)} "
                f"all have this name; {describe_bands(bands)}",
                where=where,
                remedy="use the full name of the band",
            )
    raise PermafrostError(
        f"there is no band {name!r}; {describe_bands(bands)}",
        where=where,
        remedy="choose a name from this list",
    )


def _from_card(band: dict) -> Band:
    fields = ("name", "common_name", "wavelength_nm", "sensor", "modality")
    return Band(**{field: band.get(field) for field in fields})
