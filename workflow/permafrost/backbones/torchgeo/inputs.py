"""Input of torchgeo's models that their weights do not define. For planning, so without torch.

Radar has no optical wavelength. Each model has its own convention, by polarisation in lower case,
or by ``polarisation-orbit`` if the model distinguishes orbits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from permafrost.core.errors import PermafrostError, look_up

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import Channel, InputPlan

POLARISATIONS = ("vv", "vh", "hh", "hv")

#: DOFA: wavelength in nm used for C-band radar (Xiong et al. 2024, arXiv:2403.15356)
DOFA_RADAR_NM = dict.fromkeys(POLARISATIONS, 3750.0)

#: Panopticon: channel ids of radar (Waldmann et al. 2025, arXiv:2503.10845), by torchgeo's order of
#: transmitted and received polarisation, for unknown, ascending and descending orbits
PANOPTICON_RADAR = {
    f"{polarisation}{orbit}": -1.0 - number - 4 * place
    for place, orbit in enumerate(("", "-ascending", "-descending"))
    for number, polarisation in enumerate(POLARISATIONS)
}

#: Copernicus-FM: centre and width in nm of C-band radar (Wang et al. 2025, arXiv:2503.11849)
COPERNICUSFM_RADAR_NM = dict.fromkeys(POLARISATIONS, 5e7)
COPERNICUSFM_RADAR_WIDTH_NM = 1e9
#: Copernicus-FM: widths in nm of Sentinel-2's bands in training
COPERNICUSFM_WIDTHS_NM = {
    "coastal": 20,
    "blue": 65,
    "green": 35,
    "red": 30,
    "rededge1": 15,
    "rededge2": 15,
    "rededge3": 20,
    "nir": 115,
    "nir08": 20,
    "water_vapour": 20,
    "cirrus": 30,
    "swir16": 90,
    "swir22": 180,
}
#: Copernicus-FM: patch size in pixels for images of 10 to 30 m, and the range of a patch's area in km²
COPERNICUSFM_PATCH = 16
COPERNICUSFM_AREA_KM2 = (0.001, 5.1e8)

_CROMA_OPTICAL = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B11", "B12")
_CROMA_SAR = ("VV", "VH")
#: CROMA: mean ± 2 std of the dataset mapped to [0, 1] and clipped, as in its authors' README
CROMA = {"normalization": "two_sigma", "clip": True, "size": 120}
#: CROMA: bands by modality, radar first; below, torchgeo's names of the encoders
CROMA_BANDS: dict[str, dict[str, Any]] = {
    "optical": {"bands": _CROMA_OPTICAL, "sensor": "sentinel2"},
    "sar": {"bands": _CROMA_SAR, "sensor": "sentinel1"},
    "joint": {
        "bands": _CROMA_SAR + _CROMA_OPTICAL,
        "sensor": ("sentinel1",) * len(_CROMA_SAR) + ("sentinel2",) * len(_CROMA_OPTICAL),
    },
}
CROMA_ENCODERS = {"optical": ["optical"], "sar": ["sar"], "joint": ["sar", "optical"]}


def of_modality(model: str, modality: str | None, where: str) -> dict:
    """Fields of `InputContract` for the option `modality`; empty if it is None.

    Raises
    ------
    PermafrostError : the model has no modalities, or none of this name.
    """
    if modality is None:
        return {}
    if not model.startswith("croma_"):
        raise PermafrostError(
            f"{model} has no modalities to choose from",
            where=f"{where}: modality",
            remedy="leave modality out; it is an option of CROMA",
        )
    return look_up(CROMA_BANDS, modality, "unknown modality", where=f"{where}: modality")


def copernicusfm_widths_nm(
    plan: InputPlan, given: Sequence[float] | None, where: str
) -> list[float]:
    """Width of every input channel in nm: `given` by the entry, else by `_width_nm`.

    Raises
    ------
    PermafrostError : a width is unknown, or the number of given widths is wrong.
    """
    widths = list(given) if given else [_width_nm(one) for one in plan.channels]
    if len(widths) != len(plan) or None in widths:
        raise PermafrostError(
            "the backbone needs the bandwidth of every band, and it is not known for all of"
            f" {', '.join(plan.names)}",
            where=where,
            remedy="give bandwidths_nm, one number per band in the order fed",
        )
    return [float(width) for width in widths if width is not None]


def _width_nm(channel: Channel) -> float | None:
    """The authors' width for Sentinel-2 and radar, else the dataset's, else Sentinel-2's by name."""
    if channel.common_name in COPERNICUSFM_RADAR_NM:
        return COPERNICUSFM_RADAR_WIDTH_NM
    like = COPERNICUSFM_WIDTHS_NM.get(channel.common_name or "")
    return like if (channel.sensor or "").startswith("sentinel2") else channel.width_nm or like
