"""Units of stored pixel values, which the entry of a dataset declares.

``physical = value * scale + offset``: reflectance in [0, 1] for optical bands, brightness in [0, 1]
for 8-bit photographs, decibels for radar in dB, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.entry import PICTURES, Units


@dataclass(frozen=True)
class Unit:
    """One kind of pixel value.

    Parameters
    ----------
    scale : default factor to the physical value; None if the entry must give it.
    dtypes : NumPy types that may store it (``u1``: exactly 8-bit unsigned).
    physical_max : a larger physical value proves a wrong declaration; None for no bound.
    """

    scale: float | None
    dtypes: tuple[str, ...]
    physical_max: float | None
    meaning: str


UNITS: dict[str, Unit] = {
    "uint8": Unit(1 / 255, ("u1",), None, "8-bit brightness; physical = value / 255"),
    "brightness": Unit(
        None, ("u", "i", "f"), None, "brightness in [0, 1], of no known reflectance; scale given"
    ),
    "digital_number": Unit(
        None, ("u", "i", "f"), None, "counts of a sensor; scale and offset given"
    ),
    # reflectance over bright snow, cloud or specular water exceeds 1, but never 20
    "reflectance": Unit(1.0, ("f",), 20.0, "reflectance as a fraction"),
    "db": Unit(1.0, ("u", "i", "f"), 100.0, "backscatter in decibels"),
    "linear_power": Unit(1.0, ("f",), None, "backscatter as power"),
    "kelvin": Unit(1.0, ("u", "i", "f"), None, "brightness temperature"),
    "metre": Unit(1.0, ("u", "i", "f"), None, "height or depth"),
}


def resolve_unit(declared: Units, *, where: object) -> dict:
    """``{"unit", "scale", "offset", "white"}``, with the unit's own scale as default.

    Raises
    ------
    PermafrostError : the unit needs a scale, or an option does not apply to it.
    """
    name = declared.unit
    scale = UNITS[name].scale if declared.scale is None else declared.scale
    if scale is None:
        raise PermafrostError(
            f"the unit {name!r} needs a scale (physical = value * scale + offset)",
            where=where,
            remedy="give the scale, e.g. 0.0001 for Sentinel-2 reflectance counts",
        )
    if scale == 0:
        raise PermafrostError("a scale of 0 is not allowed", where=where, remedy="correct it")
    if declared.white is not None and name not in PICTURES:
        raise PermafrostError(
            f"white is the reflectance of brightness 1, and {name} is not a brightness",
            where=where,
            remedy=f"leave white out, or declare the unit {' or '.join(PICTURES)}",
        )
    return {
        "unit": name,
        "scale": float(scale),
        "offset": float(declared.offset),
        "white": declared.white,
    }


def check_dtype(unit: str, dtype, *, where: object) -> None:
    """Raise `PermafrostError` if pixels of this type cannot have the declared unit."""
    dtype = np.dtype(dtype)
    kinds = UNITS[unit].dtypes
    if dtype.kind not in kinds and dtype.str[1:] not in kinds:
        raise PermafrostError(
            f"the entry declares {unit}, but the images hold {dtype} values",
            where=where,
            remedy="declare the unit of the files, e.g. digital_number with scale and offset",
        )


def check_range(band: str, declared: dict, low: float, high: float, *, where: object) -> None:
    """Raise `PermafrostError` if values are impossible in the declared unit (counts declared as reflectance)."""
    bound = UNITS[declared["unit"]].physical_max
    if bound is None:
        return
    reach = max(abs(x * declared["scale"] + declared["offset"]) for x in (low, high))
    if reach > bound:
        raise PermafrostError(
            f"band {band} is declared as {declared['unit']}, but its maximum is {reach:g}",
            where=where,
            remedy="declare digital_number with its scale and offset, or correct the scale",
        )
