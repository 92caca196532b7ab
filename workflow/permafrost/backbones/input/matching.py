"""Find the bands that a backbone wants in a dataset.

The first rule that any band satisfies decides. If several bands satisfy it, the name is ambiguous,
which is an error:

1. the same name (``B8a`` = ``B8A``, ``B4`` = ``B04``), unless the sensors differ
   (Landsat's B4 is not Sentinel-2's B4);
2. the same common name (``red``, ``nir08``);
3. a centre wavelength within 20 nm.

If several wanted bands match one band of the dataset, it is used for one of them: that of its name,
else the nearest in wavelength. The others count as missing, which the contract must allow.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from permafrost.backbones.input.fit import COPIED, FILLED, POLICIES
from permafrost.core.errors import PermafrostError
from permafrost.data.bands.selection import RGB, normal_name
from permafrost.data.bands.sensors import SENSORS

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import InputContract
    from permafrost.data.store.card import Card

TOLERANCE_NM = 20.0
# near infrared spans 820 to 865 nm; a larger ratio means bands of the same name but of different kind
SPREAD = 1.2


@dataclass(frozen=True)
class Wish:
    """A band that a backbone wants, with information from the registry of sensors."""

    name: str
    common_name: str | None = None
    wavelength_nm: float | None = None
    sensor: str | None = None
    #: whether the name is a band of some sensor, and so not a typing error
    known: bool = False
    #: approximate wavelength; for a name that several sensors use, the middle of theirs
    about_nm: float | None = None


@dataclass(frozen=True)
class OfferedBands:
    """The part of a dataset card that affects the input; for planning, before the card exists."""

    dataset: str
    bands: list[dict]
    selected: list[str]


@functools.lru_cache(maxsize=4096)
def wish(name: str, sensor: str | None = None) -> Wish:
    """The band `name` of `sensor`.

    Without a sensor, the wavelength stays open, and so does the common name if sensors differ in
    it.
    """
    plain = re.sub(r"^(SR|ST|TOA)_", "", name)
    sensors = [sensor] if sensor else SENSORS
    bands = [band for key in sensors for band in SENSORS.get(key, {}).values()]
    # an exact spelling has precedence: B04 is a band of Sentinel-2 and HLS, not Landsat's B4
    meant = [band for band in bands if band.name == plain] or [
        band for band in bands if normal_name(plain) in (normal_name(band.name), band.common_name)
    ]
    found = {(band.common_name, band.wavelength_nm) for band in meant}
    about = _middle([nm for _, nm in found if nm is not None])
    commons = {common for common, _ in found}
    if sensor is not None:
        common, nm = next(iter(found), (None, None))
        return Wish(name, common, nm, sensor, known=bool(found), about_nm=about)
    common = commons.pop() if len(commons) == 1 else None
    return Wish(name, common, known=bool(found), about_nm=about)


def wishes(bands, sensor: str | tuple[str | None, ...] | None) -> list[Wish]:
    """The wanted bands for ``rgb``, or for a list of names and wavelengths in nm.

    `sensor` applies to all names, or is one per name.
    """
    if bands == "rgb":
        known = [SENSORS["rgb"][name] for name in RGB]
        return [_at(band.name, band.wavelength_nm, band.common_name) for band in known]
    sensors = sensor if isinstance(sensor, tuple) else (sensor,) * len(bands)
    return [
        wish(band, whose) if isinstance(band, str) else _at(f"{band:g} nm", float(band))
        for band, whose in zip(bands, sensors, strict=True)
    ]


def _at(name: str, wavelength_nm: float, common_name: str | None = None) -> Wish:
    return Wish(name, common_name, wavelength_nm, known=True, about_nm=wavelength_nm)


class Fed(NamedTuple):
    """A wanted band with the band of the card that is used for it and its position; None if missing."""

    wanted: Wish
    band: dict | None = None
    index: int | None = None  # type: ignore[assignment]  # hides tuple.index
    #: distance to the wanted band in nm, if the band is a substitute
    distance_nm: float | None = None


def match_bands(contract: InputContract, card: Card | OfferedBands, *, where: object) -> list[Fed]:
    """Match each band of `contract` with a band of the dataset, in order.

    Raises
    ------
    PermafrostError : a band is missing or ambiguous; the message lists the bands of the dataset.
    """
    stored = {band["name"]: (band, index) for index, band in enumerate(card.bands)}
    offered = [stored[name] for name in card.selected]
    bands = [band for band, _ in offered]
    if contract.bands == "all":
        return [Fed(wish(band["name"]), band, index) for band, index in offered]
    asked = wishes(contract.bands, contract.sensor)
    if contract.picture is not None:
        return _as_picture(asked, contract, offered, card, where)
    found = [find_band(wanted, bands, where=where) for wanted in asked]
    if contract.missing == "error":
        _refuse_twice([position for position in found if position is not None], bands, card, where)
    found = _one_wish_each(asked, found, bands)
    fed = [
        Fed(wanted) if position is None else Fed(wanted, *offered[position])
        for wanted, position in zip(asked, found, strict=True)
    ]
    if contract.missing == "nearest":
        fed = [_or_nearest(one, offered, contract.nearest_nm, where) for one in fed]
    if contract.missing == FILLED:
        fed = _filled(fed, offered, contract, where)
    missing = [one.wanted for one in fed if one.band is None]
    lenient = contract.missing in ("zero", "leave_out", FILLED) and all(
        one.known for one in missing
    )
    if len(missing) == len(fed) or (missing and not lenient):
        raise PermafrostError(
            f"the dataset {card.dataset!r} has no band {', '.join(repr(w.name) for w in missing)}"
            f" ({_listing(bands, card)})",
            where=where,
            remedy="choose other bands under input.bands, or input.missing: zero to feed zeros"
            " for known bands that the dataset lacks"
            + _how_far(missing, bands, contract.nearest_nm),
        )
    return fed


def _or_nearest(fed: Fed, offered: list[tuple[dict, int]], most_nm: float | None, where) -> Fed:
    if most_nm is None:
        raise PermafrostError(
            "missing: nearest needs the largest allowed distance",
            where=where,
            remedy="give input.nearest_nm, the largest distance in nanometres",
        )
    if fed.band is not None:
        return fed
    nearest = nearest_band(fed.wanted, [band for band, _ in offered])
    if nearest is None or nearest[1] > most_nm:
        return fed
    position, distance_nm = nearest
    return Fed(fed.wanted, *offered[position], distance_nm)


def _filled(
    fed: list[Fed], offered: list[tuple[dict, int]], contract: InputContract, where: object
) -> list[Fed]:
    """`fed` with substitutes for missing bands, as the policy allows.

    Radar is never filled, and thermal bands only by thermal ones. Raises if the dataset has fewer
    bands than the policy requires.
    """
    rules = POLICIES[contract.fit]
    optical = [one for one in fed if one.wanted.about_nm is not None]
    real = sum(one.band is not None for one in optical)
    unfillable = [one.wanted.name for one in fed if one.band is None and not one.wanted.about_nm]
    problem = None
    if unfillable:
        problem = f"only bands of a known wavelength are filled, not {', '.join(unfillable)}"
    elif not real or real < rules.least_real * len(optical):
        least = f"{rules.least_real:.0%}" if rules.least_real else "one"
        problem = f"{real} of {len(optical)} wanted bands are there, and {least} must be"
    if problem is not None:
        raise PermafrostError(problem, where=where, remedy="leave the pair out")
    if rules.nearest_nm is None:
        return fed
    return [_copied(one, offered, rules.nearest_nm) if one.band is None else one for one in fed]


def _copied(fed: Fed, offered: list[tuple[dict, int]], most_nm: float) -> Fed:
    source = COPIED.get(fed.wanted.common_name or "")
    for band, index in offered:
        # the distance is recorded, so a band of unknown wavelength is not used
        nm = band.get("wavelength_nm")
        if source is not None and band.get("common_name") == source and nm is not None:
            return Fed(fed.wanted, band, index, abs(nm - fed.wanted.about_nm))
    nearest = nearest_band(fed.wanted, [band for band, _ in offered])
    if nearest is None or nearest[1] > most_nm:
        return fed
    return Fed(fed.wanted, *offered[nearest[0]], nearest[1])


def _as_picture(
    asked: list[Wish], contract: InputContract, offered, card: Card | OfferedBands, where
) -> list[Fed]:
    """Use the bands of `contract.picture` as red, green and blue, or as VV; others count as missing."""
    shown = dict(contract.picture or ())
    fed = [
        Fed(one, *offered[shown[common]])
        if (common := one.common_name or _plain(one.name)) in shown
        else Fed(one)
        for one in asked
    ]
    real = {one.wanted.common_name for one in fed if one.band is not None}
    radar = any(one.band is None and one.wanted.about_nm is None for one in fed)
    whole = (len(real) == 3 and not radar) or (real == {"vv"} and len(asked) <= 2)
    others = len(real) < len(asked) and real != {"vv"} and POLICIES[contract.fit].nearest_nm
    if not whole or others:
        raise PermafrostError(
            f"the dataset {card.dataset!r} shows no picture that these weights are fed",
            where=where,
            remedy="leave the pair out",
        )
    return fed


def _how_far(missing: list[Wish], bands: list[dict], most_nm: float | None) -> str:
    """The distances of the nearest bands, for an error of `missing: nearest`."""
    if most_nm is None:
        return ""
    distances = []
    for wanted in missing:
        if nearest := nearest_band(wanted, bands):
            position, distance_nm = nearest
            distances.append(f"{bands[position]['name']} is {distance_nm:g} nm from {wanted.name}")
    if not distances:
        return ""
    return f"; {', '.join(distances)}, and input.nearest_nm allows {most_nm:g}"


def _one_wish_each(
    asked: list[Wish], found: list[int | None], bands: list[dict]
) -> list[int | None]:
    """`found` with each band used once: for that of its name, else the nearest, else the first."""

    def apart(place: int) -> tuple[bool, float]:
        wanted, band = asked[place], bands[found[place]]
        named = _plain(band["name"]) == _plain(wanted.name) and _same_sensor(wanted, band)
        about, nm = wanted.wavelength_nm or wanted.about_nm, band.get("wavelength_nm")
        return not named, float("inf") if about is None or nm is None else abs(about - nm)

    keeps: dict[int, int] = {}
    for place, position in enumerate(found):
        if position is not None and (
            position not in keeps or apart(place) < apart(keeps[position])
        ):
            keeps[position] = place
    return [
        position if keeps.get(position) == place else None for place, position in enumerate(found)
    ]


def _refuse_twice(used: list[int], bands: list[dict], card: Card | OfferedBands, where) -> None:
    if len(set(used)) < len(used):
        twice = sorted({bands[position]["name"] for position in used if used.count(position) > 1})
        raise PermafrostError(
            f"two wanted bands match the same band of the dataset: {', '.join(twice)}"
            f" ({_listing(bands, card)})",
            where=where,
            remedy="name the bands to use under input.bands",
        )


def _listing(bands: list[dict], card: Card | OfferedBands) -> str:
    shown = ", ".join(
        f"{b['name']} ({b['common_name']})" if b.get("common_name") else b["name"] for b in bands
    )
    hidden = [band["name"] for band in card.bands if band["name"] not in card.selected]
    aside = f"; stored but not selected: {', '.join(hidden)}" if hidden else ""
    return f"it offers {shown}{aside}"


def nearest_band(wanted: Wish, bands: list[dict]) -> tuple[int, float] | None:
    """(position in `bands`, distance in nm) of the band nearest in wavelength to the wanted one.

    The first of equally near ones; None if the wavelength of the wanted band, or of all bands, is
    unknown.
    """
    if wanted.about_nm is None:
        return None
    distances = [
        (abs(band["wavelength_nm"] - wanted.about_nm), position)
        for position, band in enumerate(bands)
        if band.get("wavelength_nm") is not None
    ]
    return min(distances)[::-1] if distances else None


def find_band(wanted: Wish, bands: list[dict], *, where: object) -> int | None:
    """Position of the wanted band in `bands` (mappings of the card); None if there is none.

    Raises
    ------
    PermafrostError : several bands match.
    """
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
                f"{', '.join(bands[hit]['name'] for hit in hits)} all match it",
                where=where,
                remedy="name the bands to use under input.bands of the backbone's entry",
            )
    return None


def _middle(wavelengths: list[float]) -> float | None:
    """Middle of the wavelengths in nm; None if they are too far apart for one kind of band."""
    if not wavelengths or max(wavelengths) > SPREAD * min(wavelengths):
        return None
    return (max(wavelengths) + min(wavelengths)) / 2


def _plain(name: str) -> str:
    return normal_name(re.sub(r"^(SR|ST|TOA)_", "", name))


def _same_sensor(wanted: Wish, band: dict) -> bool:
    """Whether bands of one name are the same band; B5 differs between HLS of Landsat and Sentinel-2."""
    sensor = band.get("sensor")
    if wanted.sensor is None or sensor is None:
        return True
    commons = {wanted.common_name, band.get("common_name")} - {None}
    return wanted.sensor.partition("-")[0] == sensor.partition("-")[0] and len(commons) < 2


def _near(wanted: float | None, found: float | None) -> bool:
    return wanted is not None and found is not None and abs(wanted - found) <= TOLERANCE_NM
