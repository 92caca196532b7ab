"""Common sensors and their bands: names, centre wavelengths, widths, ground sampling distances.

Sources: Sentinel-2A, ESA's spectral responses (MSI, version 3.0); Landsat 8, Barsi et al. 2014,
doi:10.3390/rs61010232, for the optical bands; Landsat 5, 7 and the thermal bands, centre and width
of the ranges published by USGS; Landsat 9 carries copies of Landsat 8's instruments; PlanetScope
and WorldView, their operators' ranges; Sentinel-3 OLCI, the nominal centres and widths of ESA.
Radar bands have a polarisation instead of a wavelength; each model encodes it in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from permafrost.data.entry import BandOptions


@dataclass(frozen=True, kw_only=True)
class Band(BandOptions):
    """One band of a dataset: its name, wavelength and unit.

    Attributes
    ----------
    modality : in a dataset with several, the one that the band belongs to.
    """

    modality: str | None = None

    def as_dict(self) -> dict:
        """All fields, but `white` only if the entry states it."""
        return {k: value for k, value in asdict(self).items() if k != "white" or value is not None}


# common name, centre (nm), width (nm), ground sampling distance (m)
type _Row = tuple[str | None, float, float, float]

_SENTINEL2: dict[str, _Row] = {
    "B01": ("coastal", 442.7, 21, 60),
    "B02": ("blue", 492.4, 66, 10),
    "B03": ("green", 559.8, 36, 10),
    "B04": ("red", 664.6, 31, 10),
    "B05": ("rededge1", 704.1, 15, 20),
    "B06": ("rededge2", 740.5, 15, 20),
    "B07": ("rededge3", 782.8, 20, 20),
    "B08": ("nir", 832.8, 106, 10),
    "B8A": ("nir08", 864.7, 21, 20),
    "B09": ("water_vapour", 945.1, 20, 60),
    "B10": ("cirrus", 1373.5, 31, 60),
    "B11": ("swir16", 1613.7, 91, 20),
    "B12": ("swir22", 2202.4, 175, 20),
}
_LANDSAT8: dict[str, _Row] = {
    "B1": ("coastal", 443.0, 16, 30),
    "B2": ("blue", 482.0, 60, 30),
    "B3": ("green", 561.4, 57.3, 30),
    "B4": ("red", 654.6, 37.5, 30),
    "B5": ("nir", 864.7, 28.3, 30),
    "B6": ("swir16", 1608.9, 84.7, 30),
    "B7": ("swir22", 2200.7, 186.7, 30),
    "B8": ("pan", 589.5, 172.4, 15),
    "B9": ("cirrus", 1373.4, 20.4, 30),
    "B10": ("thermal1", 10895.0, 590, 100),
    "B11": ("thermal2", 12005.0, 1010, 100),
}
_LANDSAT5: dict[str, _Row] = {
    "B1": ("blue", 485.0, 70, 30),
    "B2": ("green", 560.0, 80, 30),
    "B3": ("red", 660.0, 60, 30),
    "B4": ("nir", 830.0, 140, 30),
    "B5": ("swir16", 1650.0, 200, 30),
    "B6": ("thermal1", 11450.0, 2100, 120),
    "B7": ("swir22", 2215.0, 270, 30),
}
_LANDSAT7: dict[str, _Row] = {
    **_LANDSAT5,
    "B4": ("nir", 835.0, 130, 30),
    "B6": ("thermal1", 11450.0, 2100, 60),
    "B7": ("swir22", 2220.0, 260, 30),
    "B8": ("pan", 710.0, 380, 15),
}
# bands of Landsat and Sentinel-2 that are harmonised to Landsat 8's bandpasses
_HLS: Mapping[str, _Row] = {
    common: (common, nm, width, 30)
    for common, nm, width, _ in _LANDSAT8.values()
    if common in ("coastal", "blue", "green", "red", "swir16", "swir22")
} | {"nir08": ("nir08", 864.7, 28.3, 30)}
_HLS_L30: dict[str, _Row] = {
    f"B{name[1:]:0>2}": ("nir08" if common == "nir" else common, nm, width, 30)
    for name, (common, nm, width, _) in _LANDSAT8.items()
    if common != "pan"
}
_HLS_S30: dict[str, _Row] = {
    name: (common, nm, width, 30) for name, (common, nm, width, _) in _SENTINEL2.items()
}
_PLANETSCOPE4: dict[str, _Row] = {
    "blue": ("blue", 485.0, 60, 3),
    "green": ("green", 545.0, 90, 3),
    "red": ("red", 630.0, 80, 3),
    "nir": ("nir", 820.0, 80, 3),
}
_PLANETSCOPE8: dict[str, _Row] = {
    "coastal_blue": ("coastal", 441.5, 21, 3),
    "blue": ("blue", 490.0, 50, 3),
    "green_i": ("green_i", 531.0, 36, 3),
    "green": ("green", 565.0, 36, 3),
    "yellow": ("yellow", 610.0, 20, 3),
    "red": ("red", 665.0, 30, 3),
    "rededge": ("rededge1", 705.0, 16, 3),
    "nir": ("nir", 865.0, 40, 3),
}


def _worldview(ms: float, pan: float) -> dict[str, _Row]:
    return {
        "coastal": ("coastal", 425.0, 50, ms),
        "blue": ("blue", 480.0, 60, ms),
        "green": ("green", 545.0, 70, ms),
        "yellow": ("yellow", 605.0, 40, ms),
        "red": ("red", 660.0, 60, ms),
        # between Sentinel-2's first two red-edge bands
        "rededge": ("rededge", 725.0, 40, ms),
        "nir1": ("nir", 832.5, 125, ms),
        "nir2": ("nir09", 950.0, 180, ms),
        "pan": ("pan", 625.0, 350, pan),
    }


# named by their centres because "swir1" and "swir2" mean other wavelengths for all other sensors
_WORLDVIEW3_SWIR: dict[str, _Row] = {
    "swir1210": ("swir12", 1210.0, 30, 3.7),
    "swir1570": (None, 1570.0, 40, 3.7),
    "swir1660": (None, 1660.0, 40, 3.7),
    "swir1730": (None, 1730.0, 40, 3.7),
    "swir2165": (None, 2165.0, 40, 3.7),
    "swir2205": (None, 2205.0, 40, 3.7),
    "swir2260": (None, 2260.0, 50, 3.7),
    "swir2330": (None, 2330.0, 70, 3.7),
}
_OLCI: dict[str, _Row] = {
    "Oa01": (None, 400.0, 15, 300),
    "Oa02": (None, 412.5, 10, 300),
    "Oa03": ("coastal", 442.5, 10, 300),
    "Oa04": ("blue", 490.0, 10, 300),
    "Oa05": (None, 510.0, 10, 300),
    "Oa06": ("green", 560.0, 10, 300),
    "Oa07": (None, 620.0, 10, 300),
    "Oa08": ("red", 665.0, 10, 300),
    "Oa09": (None, 673.75, 7.5, 300),
    "Oa10": (None, 681.25, 7.5, 300),
    "Oa11": ("rededge1", 708.75, 10, 300),
    "Oa12": ("rededge2", 753.75, 7.5, 300),
    "Oa13": (None, 761.25, 2.5, 300),
    "Oa14": (None, 764.375, 3.75, 300),
    "Oa15": (None, 767.5, 2.5, 300),
    "Oa16": ("rededge3", 778.75, 15, 300),
    "Oa17": ("nir08", 865.0, 20, 300),
    "Oa18": (None, 885.0, 10, 300),
    "Oa19": (None, 900.0, 10, 300),
    "Oa20": ("water_vapour", 940.0, 20, 300),
    "Oa21": (None, 1020.0, 40, 300),
}
# the bandwidths of photographs are unknown
_PHOTO = {"red": ("red", 665.0), "green": ("green", 560.0), "blue": ("blue", 490.0)}
_PHOTO_NIR = {**_PHOTO, "nir": ("nir", 830.0)}
_POLARISATIONS: tuple[Literal["VV", "VH", "HH", "HV"], ...] = ("VV", "VH", "HH", "HV")


def _optical(
    sensor: str, rows: Mapping[str, tuple], level: Literal["L1C", "L2A"] | None = None
) -> dict[str, Band]:
    fields = ("common_name", "wavelength_nm", "width_nm", "gsd_m")
    return {
        name: Band(name=name, **dict(zip(fields, row, strict=False)), sensor=sensor, level=level)
        for name, row in rows.items()
    }


def _radar(sensor: str, level: Literal["GRD", "RTC"] | None = None) -> dict[str, Band]:
    return {
        name: Band(
            name=name,
            common_name=name.lower(),
            sensor=sensor,
            level=level,
            gsd_m=10,
            polarisation=name,
        )
        for name in _POLARISATIONS
    }


# surface products have no cirrus band
_SENTINEL2_L2A = {name: row for name, row in _SENTINEL2.items() if name != "B10"}

#: sensor -> band name -> band. A sensor without a level is one of mixed or unknown level. The part
#: before the first hyphen is the family, whose variants share their band names
SENSORS: dict[str, dict[str, Band]] = {
    "sentinel2-l1c": _optical("sentinel2-l1c", _SENTINEL2, "L1C"),
    "sentinel2-l2a": _optical("sentinel2-l2a", _SENTINEL2_L2A, "L2A"),
    "sentinel2": _optical("sentinel2", _SENTINEL2),
    "sentinel1": _radar("sentinel1"),
    "sentinel1-grd": _radar("sentinel1-grd", "GRD"),
    "sentinel1-rtc": _radar("sentinel1-rtc", "RTC"),
    "sentinel3-olci": _optical("sentinel3-olci", _OLCI),
    "landsat5": _optical("landsat5", _LANDSAT5),
    "landsat7": _optical("landsat7", _LANDSAT7),
    "landsat8": _optical("landsat8", _LANDSAT8),
    "landsat9": _optical("landsat9", _LANDSAT8),
    "hls": _optical("hls", _HLS),
    "hls-l30": _optical("hls-l30", _HLS_L30),
    "hls-s30": _optical("hls-s30", _HLS_S30),
    "planetscope-4": _optical("planetscope-4", _PLANETSCOPE4),
    "planetscope-8": _optical("planetscope-8", _PLANETSCOPE8),
    "worldview2": _optical("worldview2", _worldview(ms=1.85, pan=0.46)),
    "worldview3": _optical("worldview3", _worldview(ms=1.24, pan=0.31) | _WORLDVIEW3_SWIR),
    "naip": _optical("naip", _PHOTO_NIR),
    "aerial": _optical("aerial", _PHOTO_NIR),
    "rgb": _optical("rgb", _PHOTO),
    "dem": {"elevation": Band(name="elevation", common_name="elevation", sensor="dem")},
}
