"""Input of TerraTorch's backbones: bands, statistics, sizes. For planning, so without TerraTorch.

Sources: TerraTorch 1.2.13 (prithvi_vit.py, terramind_register.py, modality_info.py) for Prithvi and
TerraMind; configs/metadata.yaml of Clay-foundation/model for Clay 1.5. For models that TerraTorch
takes from torchgeo, torchgeo's weights define the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import MinLen

from permafrost.backbones.entry import Pooled, WeightsFile
from permafrost.backbones.kinds import Known
from permafrost.core.errors import PermafrostError, look_up, near_names
from permafrost.core.options import Different, LeftOut, Positive, Text

if TYPE_CHECKING:
    from permafrost.backbones.input.contract import InputPlan


@dataclass(frozen=True, kw_only=True)
class TerratorchOptions(Pooled):
    """A backbone of TerraTorch."""

    model: Text
    """Name in TerraTorch's registry of backbones (prithvi_eo_v2_300_tl, terramind_v1_base), or clay_v1_5."""
    weights: Literal["pretrained"] | None | WeightsFile
    """TerraTorch's published weights (pretrained, downloaded once), null for random weights, or the authors' file."""
    options: dict = field(default_factory=dict)
    """Further arguments of TerraTorch's constructor."""
    modalities: LeftOut[
        Different[Text] | Annotated[dict[str, Different[Text] | None], MinLen(1)]
    ] = None
    """Input of a model of several sensors: for TerraMind S2L2A, S2L1C, RGB, S1GRD, S1RTC or DEM, for Clay one of its
    sensors. A mapping selects bands ({S2L2A: [B02, B03, B04]}, null for all). Bands that the dataset lacks are left
    out."""
    frames: Positive = 1
    """Number of dates that Prithvi reads at once, evenly spaced among those of a sample; needs
    `input: {dates: all}`."""


@dataclass(frozen=True)
class Modality:
    """A sensor that a model was trained with.

    Attributes
    ----------
    sensor : name in the registry `permafrost.data.bands.sensors`.
    unit : of means and standard deviations, see `permafrost.backbones.input.scaling`.
    bands : name of the band -> (name in TerraTorch or wavelength in µm, mean, std).
    gsd_m : ground sampling distance in training in m, for models that use it as input.
    """

    sensor: str
    unit: str
    bands: Mapping[str, tuple[str | float, float, float]]
    gsd_m: float | None = None


def _rows(names: str, called: Sequence, mean: str, std: str) -> dict:
    numbers = ([float(value) for value in text.split()] for text in (mean, std))
    return dict(zip(names.split(), zip(called, *numbers, strict=True), strict=True))


_HLS = "blue green red nir08 swir16 swir22"
_HLS_CALLED = ["BLUE", "GREEN", "RED", "NIR_NARROW", "SWIR_1", "SWIR_2"]
_S2 = "B01 B02 B03 B04 B05 B06 B07 B08 B8A B09 B10 B11 B12"
_S2_CALLED = [
    "COASTAL_AEROSOL",
    "BLUE",
    "GREEN",
    "RED",
    "RED_EDGE_1",
    "RED_EDGE_2",
    "RED_EDGE_3",
    "NIR_BROAD",
    "NIR_NARROW",
    "WATER_VAPOR",
    "CIRRUS",
    "SWIR_1",
    "SWIR_2",
]
_CLAY_S2 = "blue green red rededge1 rededge2 rededge3 nir nir08 swir16 swir22"

_PRITHVI_V1 = Modality(
    "hls",
    "digital_number",
    _rows(
        _HLS,
        _HLS_CALLED,
        mean="775 1081 1229 2497 2204 1611",
        std="1282 1270 1399 1368 1292 1155",
    ),
)
_PRITHVI_V2 = Modality(
    "hls",
    "digital_number",
    _rows(
        _HLS,
        _HLS_CALLED,
        mean="1087 1342 1433 2734 1958 1363",
        std="2248 2179 2178 1850 1242 1049",
    ),
)

TERRAMIND = {
    "S2L2A": Modality(
        "sentinel2-l2a",
        "digital_number",
        _rows(
            _S2.replace(" B10", ""),
            [name for name in _S2_CALLED if name != "CIRRUS"],
            mean="1390.458 1503.317 1718.197 1853.91 2199.1 2779.975 2987.011 3083.234 3132.22 3162.988 2424.884"
            " 1857.648",
            std="2106.761 2141.107 2038.973 2134.138 2085.321 1889.926 1820.257 1871.918 1753.829 1797.379 1434.261"
            " 1334.311",
        ),
    ),
    "S2L1C": Modality(
        "sentinel2-l1c",
        "digital_number",
        _rows(
            _S2,
            _S2_CALLED,
            mean="2357.089 2137.385 2018.788 2082.986 2295.651 2854.537 3122.849 3040.56 3306.481 1473.847 506.07"
            " 2472.825 1838.929",
            std="1624.683 1675.806 1557.708 1833.702 1823.738 1733.977 1732.131 1679.732 1727.26 1024.687 442.165"
            " 1331.411 1160.419",
        ),
    ),
    "RGB": Modality(
        "rgb",
        "uint8",
        _rows(
            "red green blue",
            ["RED", "GREEN", "BLUE"],
            mean="87.271 80.931 66.667",
            std="58.767 47.663 42.631",
        ),
    ),
    "S1GRD": Modality(
        "sentinel1-grd",
        "db",
        _rows("VV VH", ["VV", "VH"], mean="-12.599 -20.293", std="5.195 5.890"),
    ),
    "S1RTC": Modality(
        "sentinel1-rtc",
        "db",
        _rows("VV VH", ["VV", "VH"], mean="-10.93 -17.329", std="4.391 4.459"),
    ),
    # heights in metres, for any unit in the dataset's entry
    "DEM": Modality("dem", "stored", _rows("elevation", ["DEM"], mean="670.665", std="951.272")),
}
_V01_S2L2A = Modality(
    "sentinel2-l2a",
    "digital_number",
    _rows(
        _S2.replace(" B10", ""),
        [name for name in _S2_CALLED if name != "CIRRUS"],
        mean="794.311 925.161 1183.128 1338.041 1667.254 2233.633 2460.96 2555.569 2619.542 2703.298 2406.497"
        " 1841.645",
        std="1164.883 1205.586 1223.713 1399.638 1403.298 1378.513 1434.924 1491.141 1454.089 1660.395 1473.248"
        " 1365.08",
    ),
)

CLAY = {
    "sentinel-2-l2a": Modality(
        "sentinel2-l2a",
        "digital_number",
        _rows(
            _CLAY_S2,
            (0.493, 0.56, 0.665, 0.704, 0.74, 0.783, 0.842, 0.865, 1.61, 2.19),
            mean="1105 1355 1552 1887 2422 2630 2743 2785 2388 1835",
            std="1809 1757 1888 1870 1732 1697 1742 1648 1470 1379",
        ),
        gsd_m=10,
    ),
    "sentinel-1-rtc": Modality(
        "sentinel1-rtc",
        "db",
        _rows("VV VH", (3.5, 4.0), mean="-12.113 -18.673", std="8.314 8.017"),
        gsd_m=10,
    ),
    # stored digital numbers of the collections, for which there is no unit
    "landsat-c2l1": Modality(
        "landsat8",
        "stored",
        _rows(
            "B4 B3 B2 B5 B6 B7",
            (0.65, 0.56, 0.48, 0.86, 1.6, 2.2),
            mean="10678 10563 11083 14792 12276 10114",
            std="6025 5411 5468 6746 5897 4850",
        ),
        gsd_m=30,
    ),
    "landsat-c2l2-sr": Modality(
        "landsat8",
        "stored",
        _rows(
            "B4 B3 B2 B5 B6 B7",
            (0.65, 0.56, 0.48, 0.86, 1.6, 2.2),
            mean="13705 13310 12474 17801 14615 12701",
            std="9578 9408 10144 8277 5300 4522",
        ),
        gsd_m=30,
    ),
    "naip": Modality(
        "naip",
        "uint8",
        _rows(
            "red green blue nir",
            (0.65, 0.56, 0.48, 0.842),
            mean="110.16 115.41 98.15 139.04",
            std="47.23 39.82 35.43 49.86",
        ),
        gsd_m=1.0,
    ),
    "linz": Modality(
        "aerial",
        "uint8",
        _rows(
            "red green blue",
            (0.635, 0.555, 0.465),
            mean="89.96 99.46 89.51",
            std="41.83 36.96 31.45",
        ),
        gsd_m=0.5,
    ),
}


@dataclass(frozen=True)
class Family:
    """A family of models with the same interface and input.

    Attributes
    ----------
    kind : ``prithvi``, ``terramind``, ``clay``, ``torchgeo`` (models of torchgeo), ``dofa``.
    modalities : modalities of the model, by their names in entries.
    default : modalities if an entry names none.
    size : size in pixels that images are resized to.
    weights : torchgeo's name of the weights.
    """

    kind: str
    modalities: Mapping[str, Modality]
    default: tuple[str, ...] = ()
    size: int = 224
    weights: str | None = None


_TERRAMIND = Family("terramind", TERRAMIND, ("S2L2A",))

#: models by name in TerraTorch's registry, and `clay_v1_5`, its unregistered encoder of Clay 1.5
FAMILIES = {
    "prithvi_eo_v1_100": Family("prithvi", {"HLS": _PRITHVI_V1}, ("HLS",)),
    **dict.fromkeys(
        (
            "prithvi_eo_tiny",
            "prithvi_eo_v2_tiny_tl",
            "prithvi_eo_v2_100_tl",
            "prithvi_eo_v2_300",
            "prithvi_eo_v2_300_tl",
            "prithvi_eo_v2_600",
            "prithvi_eo_v2_600_tl",
        ),
        Family("prithvi", {"HLS": _PRITHVI_V2}, ("HLS",)),
    ),
    **{f"terramind_v1_{size}": _TERRAMIND for size in ("tiny", "small", "base", "large")},
    "terramind_v01_base": Family("terramind", {"S2L2A": _V01_S2L2A}, ("S2L2A",)),
    "clay_v1_5": Family("clay", CLAY, ("sentinel-2-l2a",), size=256),
    **dict.fromkeys(
        (f"dofa_{size}_patch16_224" for size in ("small", "base", "large")), Family("dofa", {})
    ),
}

_ENUMS = {
    "resnet18": "ResNet18_Weights",
    "resnet50": "ResNet50_Weights",
    "resnet152": "ResNet152_Weights",
    "swin_t": "Swin_V2_T_Weights",
    "swin_b": "Swin_V2_B_Weights",
    "vit_small_patch16_224": "ViTSmall16_Weights",
}
# TerraTorch's -> torchgeo's names of Satlas weights if they differ; both for Landsat have eleven bands
_SATLAS = {
    "LANDSAT_MI_MS": "LANDSAT_MI",
    "LANDSAT_MI_RGB": "LANDSAT_SI",
    "NAIP_MI_RGB": "NAIP_RGB_MI",
    "NAIP_SI_RGB": "NAIP_RGB_SI",
}
_FROM_TORCHGEO = re.compile(rf"(ssl4eos12|ssl4eol|satlas|seco|fmow)_({'|'.join(_ENUMS)})_(\w+)")

#: other entries of TerraTorch's registry, and why they are refused
NOT_FOR_FEATURES = {
    "IdentityBackbone": "returns its input",
    "UNet": "is a segmentation network without weights",
}


def family_of(model: str, where: str) -> Family:
    """The family of a registered model.

    Raises
    ------
    PermafrostError : the model is unknown or cannot be used as a backbone.
    """
    if model in FAMILIES:
        return FAMILIES[model]
    if match := _FROM_TORCHGEO.fullmatch(model):
        name = _torchgeo_name(match[1], match[3])
        return Family("torchgeo", {}, weights=f"{_ENUMS[match[2]]}.{name}")
    reason = _refused(model)
    raise PermafrostError(
        f"TerraTorch's {model} {reason}"
        if reason
        else f"unknown model {model!r} of TerraTorch, {near_names(model, FAMILIES)}",
        where=f"{where}: model",
        remedy="name a backbone of TerraTorch's registry that returns features of an image",
    )


def _torchgeo_name(project: str, rest: str) -> str:
    if project != "satlas":
        return rest.upper()
    name = rest.removesuffix("_satlas").upper()
    return f"{_SATLAS.get(name, name)}_SATLAS"


def _refused(model: str) -> str | None:
    if "tokenizer" in model:
        return "turns images into tokens for generation"
    if model.endswith("_tim"):
        return "generates further modalities with decoders before it encodes; the model without _tim encodes"
    if model.startswith("dinov3_"):
        return "downloads code from GitHub and runs it; kind timm has DINOv3's models"
    if model.startswith("convnext"):
        return "(of MMEarth) fails in its forward pass: its layer norms expect channels last"
    return NOT_FOR_FEATURES.get(model)


def chosen_modalities(
    family: Family,
    modalities: Sequence[str] | Mapping[str, Sequence[str] | None] | None,
    where: str,
) -> dict[str, tuple[str, ...]]:
    """Modality to its bands, as selected by an entry: all bands, or those in its mapping.

    Raises
    ------
    PermafrostError : a modality or band is unknown, or modalities do not go together.
    """
    given = modalities or family.default
    asked = given if isinstance(given, Mapping) else dict.fromkeys(given)
    chosen = {}
    for name, bands in asked.items():
        place = f"{where}: modalities"
        remedy = "correct the name, or leave modalities out"
        modality = look_up(
            family.modalities, name, "the model has no modality", where=place, remedy=remedy
        )
        known = modality.bands
        for band in bands or ():
            look_up(known, band, f"{name} has no band", where=f"{place}.{name}")
        chosen[name] = tuple(band for band in known if bands is None or band in bands)
    if family.kind == "clay" and len(chosen) > 1:
        raise PermafrostError(
            f"Clay sees images of one sensor, and modalities names {' and '.join(chosen)}",
            where=f"{where}: modalities",
            remedy="name one of them",
        )
    names = [band for bands in chosen.values() for band in bands]
    if len(set(names)) < len(names):
        raise PermafrostError(
            f"modalities names {' and '.join(chosen)}, two of which are two processing levels of one sensor",
            where=f"{where}: modalities",
            remedy="name one of them",
        )
    return chosen


def known(entry: dict, where: str, offered: Callable) -> Known | None:
    """The input that an entry requires, see `kinds.Kind.known`."""
    family = family_of(entry["model"], where)
    if family.weights is None:
        return Known(wanted(entry, where))
    installed = offered()
    return None if installed is None else installed.torchgeo({"weights": family.weights}, where)


def wanted(options: Mapping, where: str) -> dict:
    """Fields of `InputContract` that the model defines; not for models from torchgeo.

    Parameters
    ----------
    options : with ``model``, ``modalities`` and ``weights``.
    """
    family = family_of(options["model"], where)
    chosen = chosen_modalities(family, options.get("modalities"), where)
    own: dict = {"normalization": "dataset", "size": family.size}
    if family.kind == "prithvi":
        own["dates"] = "each"
    if not chosen:
        return {**own, "bands": "all"}
    rows = [
        (name, modality.sensor, modality.unit, *modality.bands[name][1:])
        for modality, names in ((family.modalities[key], names) for key, names in chosen.items())
        for name in names
    ]
    bands, sensors, units, means, stds = zip(*rows, strict=True)
    # the same statistics for pretrained and random weights
    return {
        **own,
        "bands": bands,
        "sensor": sensors,
        "unit": units,
        "mean": means,
        "std": stds,
        "normalization": "weights",
        "missing": "leave_out",
    }


def fed_bands(
    family: Family, chosen: Mapping[str, Sequence[str]], plan: InputPlan, where: str
) -> dict[str, dict[str, int]]:
    """Modality -> band -> input channel, in the order of the model, for bands in the input.

    Raises
    ------
    PermafrostError : a channel is constant, or the model lacks its band.
    """
    wished = {name: (modality, name) for modality, names in chosen.items() for name in names}
    found: dict[str, dict[str, int]] = {}
    for position, channel in enumerate(plan.channels):
        if channel.index is None:
            raise PermafrostError(
                f"the band {channel.name} is absent, and this model has no zero filling for it",
                where=where,
                remedy="leave input.missing out: the model then uses the existing bands",
            )
        modality, name = look_up(
            wished,
            channel.wanted,
            "the model has no band",
            where=where,
            remedy="leave input.bands out, and choose bands under modalities",
        )
        found.setdefault(modality, {})[name] = position
    order = {key: list(bands) for key, bands in chosen.items()}
    return {
        key: {name: found[key][name] for name in order[key] if name in found[key]}
        for key in order
        if key in found
    }
