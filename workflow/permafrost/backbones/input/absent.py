"""Neutral input values, after normalization, for bands that a dataset lacks.

=============================================== ===================================================
normalization                                   neutral value
=============================================== ===================================================
subtracts a mean                                0
maps mean ± 2 std or a range to [0, 1]          0.5
only divides                                    the normalized mean of pretraining images
none (stored values)                            0
=============================================== ===================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from permafrost.backbones.input.matching import Wish
from permafrost.backbones.input.scaling import TO_UNIT_INTERVAL, Scaling, to_unit

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import Channel

#: common name -> mean reflectance of Sentinel-2 level 1C in SSL4EO-S12 (zhu-xlab/SSL4EO-S12, ``S2C_MEAN``)
MEAN_REFLECTANCE = {
    "coastal": 0.1606,
    "blue": 0.1391,
    "green": 0.1315,
    "red": 0.1364,
    "rededge1": 0.1549,
    "rededge2": 0.2092,
    "rededge3": 0.2372,
    "nir": 0.2300,
    "nir08": 0.2560,
    "water_vapour": 0.0830,
    "cirrus": 0.0022,
    "swir16": 0.2177,
    "swir22": 0.1524,
}
_REFLECTANCE = {"unit": "reflectance", "scale": 1.0, "offset": 0.0}
_OPTICAL = ("reflectance", "digital_number", "unit_interval", "uint8")


def neutral_value(wanted: Wish, scaling: Scaling) -> float:
    """The value for a channel without a band, see the table above.

    It is 0 for weights that only divide, if their unit is not convertible from reflectance or
    `MEAN_REFLECTANCE` lacks the band.
    """
    if scaling.normalization in TO_UNIT_INTERVAL:
        return 0.5
    if scaling.normalization != "weights" or scaling.mean != 0 or not scaling.std:
        return 0.0
    if scaling.unit not in _OPTICAL or wanted.common_name not in MEAN_REFLECTANCE:
        return 0.0
    factor, _ = to_unit(_REFLECTANCE, scaling.unit, white=scaling.white)
    return MEAN_REFLECTANCE[wanted.common_name] * factor / scaling.std


def copies_as_fed(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Normalize substitute channels like the regular channel of the same band, if there is one."""
    own = {one.index: one for one in channels if one.stands_for is None}
    return tuple(
        dataclasses.replace(
            one,
            center=own[one.index].center,
            gain=own[one.index].gain,
            power=own[one.index].power,
        )
        if one.stands_for is not None and one.index in own
        else one
        for one in channels
    )
