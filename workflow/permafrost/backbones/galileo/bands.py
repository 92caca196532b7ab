"""Input of Galileo: its groups of bands and the authors' normalization. Does not import torch.

Source: nasaharvest/galileo, ``single_file_galileo.py`` (order of bands and groups) and ``config/normalization.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from permafrost.backbones.kinds import Known


class Band(NamedTuple):
    """A band of Galileo: sensor, and mean and standard deviation in `unit` (dB, or digital numbers)."""

    sensor: str
    unit: str
    mean: float
    std: float


#: in the order of the authors' space-time tensor, whose last channel is the NDVI
BANDS = {
    "VV": Band("sentinel1", "db", -11.728724389184965, 4.887145774840316),
    "VH": Band("sentinel1", "db", -18.85558188024017, 5.730270320384293),
    "B2": Band("sentinel2", "digital_number", 1395.3408730676722, 917.7041440370853),
    "B3": Band("sentinel2", "digital_number", 1338.4026921784578, 913.2988423581528),
    "B4": Band("sentinel2", "digital_number", 1343.09883810357, 1092.678723527555),
    "B5": Band("sentinel2", "digital_number", 1543.8607982512297, 1047.2206083460424),
    "B6": Band("sentinel2", "digital_number", 2186.2022069512263, 1048.0101611156767),
    "B7": Band("sentinel2", "digital_number", 2525.0932853316694, 1143.6903026819996),
    "B8": Band("sentinel2", "digital_number", 2410.3377187373408, 1098.979177731649),
    "B8A": Band("sentinel2", "digital_number", 2750.2854646886753, 1204.472755085893),
    "B11": Band("sentinel2", "digital_number", 2234.911100061487, 1145.9774063078878),
    "B12": Band("sentinel2", "digital_number", 1474.5311266077113, 980.2429840007796),
}
NDVI_MEAN, NDVI_STD = 0.2892116502999044, 0.2720939024500081

#: in the order of the authors' masks; the NDVI is computed from the bands it is listed with
GROUPS = {
    "S1": ("VV", "VH"),
    "S2_RGB": ("B2", "B3", "B4"),
    "S2_Red_Edge": ("B5", "B6", "B7"),
    "S2_NIR_10m": ("B8",),
    "S2_NIR_20m": ("B8A",),
    "S2_SWIR": ("B11", "B12"),
    "NDVI": ("B8", "B4"),
}


def known(entry: dict, where: str, offered: Callable) -> Known:
    """The input that an entry requires; see `kinds.Kind.known`."""
    return Known(wants(entry["groups"]))


def wants(groups: Sequence[str]) -> dict:
    """Fields of `InputContract`: bands of `groups`, mean ± 2 std mapped to [0, 1], native size."""
    needed = {name for group in groups for name in GROUPS[group]}
    bands = {name: band for name, band in BANDS.items() if name in needed}
    return {
        "bands": tuple(bands),
        "sensor": tuple(band.sensor for band in bands.values()),
        "normalization": "two_sigma",
        "unit": tuple(band.unit for band in bands.values()),
        "mean": tuple(band.mean for band in bands.values()),
        "std": tuple(band.std for band in bands.values()),
        "missing": "leave_out",
        "size": None,
        "dates": "each",
    }
