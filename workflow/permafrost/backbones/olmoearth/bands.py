"""Input of OlmoEarth: modalities, their bands in order, and the authors' normalization. Without torch.

Source: olmoearth-pretrain-minimal 0.1.5, ``data/norm_configs/computed.json``,
``utils/constants.py`` (order) and ``data/missing_bands.py`` (wavelengths).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from permafrost.backbones.kinds import Known


class Band(NamedTuple):
    """Mean and std in the unit of the modality, and the wavelength in nm used to fill missing bands."""

    mean: float
    std: float
    nm: float | None = None


class Modality(NamedTuple):
    """A sensor, the unit of its bands' statistics, and its bands in the order of the authors' tensor."""

    sensor: str
    unit: str
    bands: dict[str, Band]


MODALITIES = {
    "sentinel2_l2a": Modality(
        "sentinel2",
        "digital_number",
        {
            "B02": Band(1188.9412572078477, 1859.1923971769581, 490),
            "B03": Band(1407.7739105458452, 1727.7387413631088, 560),
            "B04": Band(1513.0573882432757, 1740.7757298757895, 665),
            "B08": Band(2755.481305028308, 1612.2565699990187, 842),
            "B05": Band(1890.9893042634167, 1754.7320388511766, 705),
            "B06": Band(2483.7812315422448, 1622.1172720635755, 740),
            "B07": Band(2722.728248756412, 1621.8226170190276, 783),
            "B8A": Band(2885.570263047681, 1611.3587521042082, 865),
            "B11": Band(2562.852607796968, 1441.5471830655151, 1610),
            "B12": Band(1914.1383249044113, 1328.8914382756407, 2190),
            "B01": Band(1115.8494388252218, 1955.6991794280914, 443),
            "B09": Band(3269.812554170875, 2651.088425085525, 945),
        },
    ),
    "sentinel1": Modality(
        "sentinel1",
        "db",
        {
            "VV": Band(-11.648990747328444, 10.840350299936597),
            "VH": Band(-17.745436133270044, 10.216274681392647),
        },
    ),
    # stored digital numbers of collection 2, level 1
    "landsat": Modality(
        "landsat8",
        "stored",
        {
            "B8": Band(10132.090998288624, 7788.7282476413675, 590),
            "B1": Band(11000.959519415692, 7857.9205791510285, 443),
            "B2": Band(10493.416292898208, 7872.392135393957, 482),
            "B3": Band(10146.318478942761, 7676.2774595217115, 561),
            "B4": Band(10236.446029167704, 8038.218121686258, 655),
            "B5": Band(14427.021492873682, 9302.431605916356, 865),
            "B6": Band(12164.08145353199, 7442.390533225441, 1609),
            "B7": Band(9712.032951062303, 6037.712185433222, 2201),
            "B9": Band(4585.469566989013, 2549.745355740949, 1373),
            "B10": Band(21347.89356940543, 10957.2815012006, 10900),
            "B11": Band(19686.23205859348, 9911.421224126807, 12000),
        },
    ),
}
# bands above this wavelength are thermal; thermal and optical bands do not replace each other
_THERMAL_NM = 5000


def known(entry: dict, where: str, offered: Callable) -> Known:
    """The input that an entry requires; see `kinds.Kind.known`."""
    return Known(wants(entry["modalities"]))


def wants(modality_names: Sequence[str]) -> dict:
    """Fields of `InputContract`: bands of the modalities, mean ± 2 std to [0, 1], native size."""
    chosen = [
        (name, modality, band)
        for modality in (MODALITIES[one] for one in modality_names)
        for name, band in modality.bands.items()
    ]
    return {
        "bands": tuple(name for name, _, _ in chosen),
        "sensor": tuple(modality.sensor for _, modality, _ in chosen),
        "normalization": "two_sigma",
        "unit": tuple(modality.unit for _, modality, _ in chosen),
        "mean": tuple(band.mean for _, _, band in chosen),
        "std": tuple(band.std for _, _, band in chosen),
        "missing": "leave_out",
        "size": None,
        "dates": "each",
    }


def nearest(wanted: str, present: Sequence[str], modality: str) -> str | None:
    """The band in `present` nearest to a missing one, as the authors choose it; None without one.

    Of equally near bands, that of the shorter wavelength. Optical and thermal bands are kept
    separate.
    """
    bands = MODALITIES[modality].bands
    nm = bands[wanted].nm
    if nm is None:
        return None
    alike = [one for one in present if (bands[one].nm > _THERMAL_NM) == (nm > _THERMAL_NM)]
    return min(alike, key=lambda one: (abs(bands[one].nm - nm), bands[one].nm), default=None)
