"""Convert stored values to the unit and normalization of a backbone, by one affine map per channel.

The input value is ``(stored - center) * gain``. For radar in linear power and weights in dB, it is
``(decibels - center) * gain`` with ``decibels = 10 log10(max(stored * scale + offset, 1e-5))``. The
card defines ``physical = stored * scale + offset``, which is reflectance for the units digital
number and reflectance, and brightness in [0, 1] for pictures: `uint8` (scale 1/255) and
`brightness`.

Units of the statistics of weights, and how stored values are converted to them:

================== ======================== ========================== ==================
wanted             from pictures            from digital numbers       from dB
                                            or reflectance             or linear power
================== ======================== ========================== ==================
``unit_interval``  physical                 physical, as it is [1]_    --
``uint8``          255 * physical           255 * physical [1]_        --
``reflectance``    white * physical [2]_    physical                   --
``digital_number`` 10000 * reflectance [2]_ 10000 * physical           --
``db``             --                       --                         physical, decibels
``stored``         the stored value, whatever it means
================== ======================== ========================== ==================

.. [1] divided by the backbone's `white`, if given: the reflectance that is 255 in pictures like its training
   images (0.3558 in Sentinel-2's true-colour images).
.. [2] `white` of the pictures, from the dataset's entry or assumed by a policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from permafrost.core.errors import PermafrostError
from permafrost.data.entry import PICTURES

NORMALIZATIONS = ("weights", "dataset", "two_sigma", "percentile", "minmax", "none")
#: those that map to [0, 1], after which values may be clipped
TO_UNIT_INTERVAL = ("two_sigma", "percentile", "minmax")
UNITS = ("unit_interval", "uint8", "reflectance", "digital_number", "db", "stored")

#: lower bound of linear power, also for values <= 0: -50 dB, far below the noise of any radar
POWER_FLOOR = 1e-5

_OPTICAL = frozenset({"digital_number", "reflectance"})


@dataclass(frozen=True)
class Scaling:
    """The required scaling of one channel.

    Attributes
    ----------
    normalization : ``none``: stored values; ``dataset``: mean 0 and std 1 on the train split;
        ``minmax``: range of the train split mapped to [0, 1]; ``percentile``: its 2nd and 98th
        percentile mapped to [0, 1]; ``two_sigma``: mean ± 2 std mapped to [0, 1], by `mean` and
        `std`, else by the train split; ``weights``: (x - mean) / std.
    unit : of `mean` and `std`.
    white : reflectance that is 255 in pictures like the training images of the weights.
    assumed_white : `white` that a policy assumes for pictures whose dataset states none.
    """

    normalization: str
    unit: str | None = None
    mean: float | None = None
    std: float | None = None
    white: float | None = None
    assumed_white: float | None = None


class Scaled(NamedTuple):
    """Affine map of stored values; ``power`` is (scale, offset) if power is converted to dB first."""

    center: float
    gain: float
    power: tuple[float, float] | None = None


def channel_scaling(band: dict, wanted: Scaling, *, where: object = None) -> Scaled:
    """The affine map of one channel.

    Parameters
    ----------
    band : a band of the card with ``unit``, ``scale``, ``offset`` and statistics of stored values.
    wanted : required scaling.

    Raises
    ------
    PermafrostError : the band is constant, statistics are missing, or its unit cannot be converted.
    """
    normalization, mean, std = wanted.normalization, wanted.mean, wanted.std
    if normalization == "none":
        return Scaled(0.0, 1.0)
    if normalization == "dataset":
        return Scaled(float(band["mean"]), 1.0 / _spread(band, band["std"], where))
    if normalization == "two_sigma" and mean is None:
        spread = 4 * _spread(band, band["std"], where)
        return Scaled(float(band["mean"]) - spread / 2, 1.0 / spread)
    if normalization == "percentile":
        return Scaled(float(band["p2"]), 1.0 / _between_percentiles(band, where))
    if normalization == "minmax":
        return Scaled(float(band["min"]), 1.0 / _spread(band, band["max"] - band["min"], where))
    if mean is None or std is None:
        raise PermafrostError(
            "normalization: weights needs the mean and std that the weights were trained with,"
            " and these weights include none",
            where=where,
            remedy="give input.mean, input.std and input.unit, or choose normalization: dataset",
        )
    if std <= 0:
        raise PermafrostError(f"a std of {std:g} cannot normalise", where=where)
    if normalization == "two_sigma":
        mean, std = mean - 2 * std, 4 * std
    if band["unit"] == "linear_power" and wanted.unit == "db":
        return Scaled(mean, 1 / std, (float(band["scale"] or 1.0), float(band["offset"] or 0.0)))
    picture = band["unit"] in PICTURES
    white = band.get("white") or wanted.assumed_white if picture else wanted.white
    factor, shift = to_unit(band, wanted.unit, white=white, where=where)
    # equals ((stored * factor + shift) - mean) / std
    return Scaled((mean - shift) / factor, factor / std)


def to_unit(
    band: dict, unit: str | None, *, white: float | None = None, where: object = None
) -> tuple[float, float]:
    """(factor, shift) with ``value in unit = stored * factor + shift``.

    Parameters
    ----------
    white : of the pictures if `band` is a picture, else of the weights.

    Raises
    ------
    PermafrostError : the unit of `band` cannot be converted to `unit`.
    """
    have, scale, offset = band["unit"], float(band["scale"] or 1.0), float(band["offset"] or 0.0)
    if unit == "stored":
        return 1.0, 0.0
    reach = _factor(have, unit, white)
    if reach is None:
        raise _unreachable(band, have, unit, where)
    return scale * reach, offset * reach


def _factor(have: str, unit: str | None, white: float | None) -> float | None:
    """The factor from physical values to `unit`; None if the conversion is impossible."""
    picture, optical = have in PICTURES, have in _OPTICAL
    if unit in ("unit_interval", "uint8") and (picture or optical):
        full = 255.0 if unit == "uint8" else 1.0
        return full / white if optical and white else full
    if unit in ("reflectance", "digital_number") and (optical or (picture and white)):
        full = 10000.0 if unit == "digital_number" else 1.0
        return full * white if picture else full
    return 1.0 if unit == have == "db" else None


def per_channel(value, count: int, what: str, where: object) -> list:
    """`value` as a list with one item per channel; a single value is repeated.

    Raises
    ------
    PermafrostError : a sequence has another length; `what` names it.
    """
    if value is None or isinstance(value, str | int | float):
        return [value] * count
    if len(value) == 1:
        return list(value) * count
    if len(value) != count:
        raise PermafrostError(
            f"{what} has {len(value)} values, but {count} channels are fed",
            where=where,
            remedy=f"give one {what} per channel under input, or choose normalization: dataset",
        )
    return list(value)


def _spread(band: dict, spread: float, where) -> float:
    if not spread > 0:
        raise PermafrostError(
            f"the band {band['name']} is constant in the train split and cannot be normalised",
            where=where,
            remedy="leave it out under input.bands, or choose normalization: none",
        )
    return float(spread)


def _between_percentiles(band: dict, where) -> float:
    if band["p98"] == band["p2"] and band["max"] > band["min"]:
        raise PermafrostError(
            f"the 2nd and the 98th percentile of the band {band['name']} in the train split are both {band['p2']:g}",
            where=where,
            remedy="leave it out under input.bands, or choose normalization: dataset or minmax",
        )
    return _spread(band, band["p98"] - band["p2"], where)


def _unreachable(band: dict, have: str, unit: str | None, where) -> PermafrostError:
    name = band["name"]
    if unit is None:
        return PermafrostError(
            "the unit of the mean and std of these weights is unknown",
            where=where,
            remedy=f"give input.unit, one of {', '.join(UNITS)}",
        )
    if unit not in UNITS:
        return PermafrostError(f"unknown unit {unit!r}, known: {', '.join(UNITS)}", where=where)
    if have in PICTURES and unit in ("reflectance", "digital_number"):
        held = "8-bit brightness" if have == "uint8" else "brightness of no known reflectance"
        return PermafrostError(
            f"the weights want {unit}, but the band {name} holds {held}",
            where=where,
            remedy="state `white` under the dataset's units, the reflectance that its brightest value shows (0.3558"
            " for Sentinel-2 true colour), or choose `fit: authors`, or normalization: dataset",
        )
    return PermafrostError(
        f"the weights want {unit}, but the band {name} holds {have}",
        where=where,
        remedy="declare the dataset's unit, scale and offset, or choose normalization: dataset",
    )
