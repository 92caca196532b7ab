"""Finding, in a dataset, the band that a backbone wants.

The first of these rules that any band satisfies decides; if several bands satisfy it the wish is
ambiguous, which is an error and never a guess:

1. the same name (``B8a`` = ``B8A``, ``B4`` = ``B04``), and not the band of another sensor
   (Landsat's B4 is not Sentinel-2's B4);
2. the same common name (``red``, ``nir08``);
3. a centre wavelength within 20 nm.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.data.bands import RGB, SENSORS, normal_name

TOLERANCE_NM = 20.0


@dataclass(frozen=True)
class Wish:
    """A band that a backbone wants: its name, and what a registry of sensors knows of it."""

    name: str
    common_name: str | None = None
    wavelength_nm: float | None = None
    sensor: str | None = None
    #: the name is a band of some sensor, so that it cannot be a slip of the pen
    known: bool = False


@functools.lru_cache(maxsize=4096)
def wish(name: str, sensor: str | None = None) -> Wish:
    """The band `name` of `sensor`; without a sensor, a name that several sensors use stays a bare name."""
    plain = re.sub(r"^(SR|ST|TOA)_", "", name)
    sensors = [sensor] if sensor else list(SENSORS)
    found = {
        (common, nm)
        for key in sensors
        for known, (common, nm) in SENSORS.get(key, {}).items()
        if normal_name(known) == normal_name(plain) or common == normal_name(plain)
    }
    commons = {common for common, _ in found}
    if sensor is not None:
        common, nm = next(iter(found), (None, None))
        return Wish(name, common, nm, sensor, known=bool(found))
    return Wish(name, commons.pop() if len(commons) == 1 else None, known=bool(found))


def wishes(bands, sensor: str | None) -> list[Wish]:
    """The wishes behind ``rgb`` or a list of names."""
    if bands == "rgb":
        return [Wish(name, name, SENSORS["rgb"][name][1], known=True) for name in RGB]
    return [wish(name, sensor) for name in bands]


def find_band(wanted: Wish, bands: list[dict], *, where: object) -> int | None:
    """Position in `bands` (the card's mappings) of the one that is wanted; None if there is none."""
    name = _plain(wanted.name)
    rules = (
        lambda band: band["name"] == wanted.name and _same_sensor(wanted, band),
        lambda band: _plain(band["name"]) == name and _same_sensor(wanted, band),
        lambda band: (wanted.common_name or name) == (band.get("common_name") or ""),
        lambda band: _near(wanted.wavelength_nm, band.get("wavelength_nm")),
    )
    for rule in rules:
        hits = [position for position, band in enumerate(bands) if rule(band)]
        if len(hits) == 1:
            return hits[0]
        if hits:
            raise PermafrostError(
                f"the band {wanted.name!r} is ambiguous: "
                f"{', '.join(bands[hit]['name'] for hit in hits)} all answer to it",
                where=where,
                remedy="name the bands to use under input.bands of the backbone's entry",
            )
    return None


def _plain(name: str) -> str:
    return normal_name(re.sub(r"^(SR|ST|TOA)_", "", name))


def _same_sensor(wanted: Wish, band: dict) -> bool:
    sensor = band.get("sensor")
    if wanted.sensor is None or sensor is None:
        return True
    return wanted.sensor.partition("-")[0] == sensor.partition("-")[0]


def _near(wanted: float | None, found: float | None) -> bool:
    return wanted is not None and found is not None and abs(wanted - found) <= TOLERANCE_NM
