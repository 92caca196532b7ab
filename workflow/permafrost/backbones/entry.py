"""Keys of catalogue entries that several kinds of backbones share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Interval

from permafrost.core.options import (
    Above0,
    AnyDifferent,
    Different,
    LeftOut,
    Matches,
    Name,
    Natural,
    Options,
    OrNull,
    Positive,
    Some,
    Text,
)

Function = Annotated[
    str,
    Matches(
        "path/to/file.py:function or package.module:function",
        r"^.+:[A-Za-z_][A-Za-z0-9_]*$(?!\n)",
    ),
]
Unit = Literal["unit_interval", "uint8", "reflectance", "digital_number", "db", "stored"]


@dataclass(frozen=True, kw_only=True)
class Runtime(Options):
    """How to run the backbone; does not affect fingerprints."""

    batch_size: LeftOut[Positive] = None
    """Images per forward pass."""


@dataclass(frozen=True, kw_only=True)
class Described(Options):
    """Keys that describe a backbone and do not affect how it is built."""

    title: LeftOut[str] = None
    """Name shown in tables and figures."""
    description: LeftOut[str] = None
    licence: LeftOut[str] = None
    citation: LeftOut[str] = None
    url: LeftOut[str] = None
    year: LeftOut[Annotated[int, Interval(ge=1900, le=2100)]] = None
    """Year of publication."""
    parameters: LeftOut[Natural] = None
    """Number of parameters of the model without heads."""
    trained_on: LeftOut[AnyDifferent[Name]] = None
    """Image collections that the weights were trained on, in lower case (ssl4eo-s12, imagenet-1k); empty for
    random weights. The page notes if a dataset names one of them under `images_of`."""
    runtime: LeftOut[Runtime] = None
    """How to run the backbone; does not affect fingerprints."""
    environment: LeftOut[
        Annotated[str, Matches("lower-case letters, digits and -", r"^[a-z0-9][a-z0-9-]*$(?!\n)")]
    ] = None
    """Name of a separate environment, defined by envs/NAME.lock, envs/NAME.yaml (conda) or envs/NAME.sif
    (apptainer). If left out, the backbone runs in the main one."""


@dataclass(frozen=True, kw_only=True)
class Input(Options):
    """Input of the backbone. Keys that are left out follow from its weights, then from `extraction`."""

    RULES = {
        "dependentRequired": {"mean": ["std"], "std": ["mean"]},
        "if": {"required": ["missing"], "properties": {"missing": {"const": "nearest"}}},
        "then": {"required": ["nearest_nm"]},
    }

    bands: LeftOut[Literal["all", "rgb"] | Different[Text | Above0]] = None
    """The dataset's selected bands (all), red, green and blue (rgb), or names in the order of the channels. A
    number is a wavelength in nanometres; it selects the one band within 20 nm."""
    size: OrNull[Positive] = None
    """Size in pixels that images are resized to (square); null keeps the native size."""
    crop: LeftOut[Positive] = None
    """Size in pixels of the centre crop after resizing."""
    interpolation: LeftOut[Literal["bilinear", "bicubic", "nearest"]] = None
    antialias: LeftOut[bool] = None
    normalization: LeftOut[
        Literal["weights", "dataset", "two_sigma", "percentile", "minmax", "none"]
    ] = None
    """Statistics of the weights (weights), z-scores by the train split (dataset), mean ± 2 standard deviations
    mapped to [0, 1] (two_sigma; by `mean` and `std`, else by the train split), the 2nd and 98th percentile
    (percentile) or the range (minmax) of the train split mapped to [0, 1], or stored values (none)."""
    clip: LeftOut[bool] = None
    """With two_sigma, percentile or minmax, clip values to [0, 1]."""
    mean: LeftOut[float | Some[float]] = None
    """Mean that the weights were trained with, in `unit`."""
    std: LeftOut[float | Some[float]] = None
    """Standard deviation that the weights were trained with, in `unit`."""
    unit: LeftOut[Unit | Some[Unit]] = None
    """Unit of mean and std, one for all channels or one per channel."""
    missing: LeftOut[Literal["error", "zero", "nearest", "leave_out"]] = None
    """How to treat bands that the dataset lacks: zero fills in the neutral value of the normalization (0 for
    z-scores); nearest uses the band with the nearest wavelength within `nearest_nm`, and feature stores record it;
    leave_out passes fewer channels, to models that accept any subset of their bands."""
    nearest_nm: LeftOut[Above0] = None
    """Largest distance between centre wavelengths, in nanometres."""
    dates: LeftOut[Literal["each", "all"]] = None
    """How the dates of a time series or pair are passed: each alone, and probes reduce the features of dates; or all
    at once, for Galileo, OlmoEarth, Presto, TESSERA, or an entrypoint whose module takes (B, T, C, H, W) and returns
    the features of a sample."""
    metadata: LeftOut[Literal["fed", "withheld"]] = None
    """Whether models that accept location, date and ground sampling distance get them, if they are known for all
    samples of the dataset (fed), or never (withheld), which shows how much they contribute."""
    white: LeftOut[Above0] = None
    """Reflectance that is 255 in 8-bit pictures like the training images of the weights; scales datasets in
    reflectance. With `fit: authors`, it also applies to pictures whose dataset states no `white`, for weights in
    reflectance that only divide."""


@dataclass(frozen=True, kw_only=True)
class Imaged(Described):
    """Keys of a backbone that reads pixels."""

    input: Input = field(default_factory=Input)
    """Input of the backbone. Keys that are left out follow from its weights, then from `extraction`."""
    layers: LeftOut[Different[Text]] = None
    """Layers whose feature maps segmentation and detection use, coarse to fine, by their names in the model
    (layer4, blocks.11, stages.3). If left out, the defaults of the model family."""


@dataclass(frozen=True, kw_only=True)
class Grid(Options):
    """Grid of the feature maps of a backbone that reads locations."""

    size: Positive | None = None
    """Height and width of the maps for dense tasks, in cells; null: one cell per pixel of the image."""


@dataclass(frozen=True, kw_only=True)
class Placed(Described):
    """Keys of a backbone that reads locations instead of pixels."""

    input: Grid = field(default_factory=Grid)


@dataclass(frozen=True, kw_only=True)
class Seeded(Options):
    """Options of a backbone with random components."""

    seed: Annotated[int, Interval(ge=0, le=2**63 - 1)] = 0
    """Seed of everything random in the backbone."""


@dataclass(frozen=True, kw_only=True)
class Pooled(Seeded):
    """Options of a backbone whose tokens are pooled."""

    pooling: LeftOut[Literal["mean", "cls", "both"]] = None
    """How tokens are pooled to one vector. If left out, the model's own pooling is used."""


@dataclass(frozen=True, kw_only=True)
class WeightsFile(Options):
    """A weights file."""

    source: Literal["file"]
    path: Text
    """A .safetensors file, or a state dict that torch.load reads with weights_only=True."""


@dataclass(frozen=True, kw_only=True)
class Selected(Options):
    """Options of a state dict with further tensors or other names."""

    drop: LeftOut[Different[Text]] = None
    """Patterns (decoder*) of tensor names in the file to drop, such as those of a decoder. Feature stores list the
    dropped tensors; a pattern that matches nothing is an error."""
    prefix: LeftOut[Text] = None
    """Prefix of the tensor names in the file that is removed (encoder.)."""


@dataclass(frozen=True, kw_only=True)
class Encoded(Seeded):
    """Options of an encoder whose authors publish a weights file."""

    weights: WeightsFile | None
    """The authors' weights file, or null for random weights."""
    patch_size: Annotated[int, Interval(ge=1, le=8)] = 8
    """Patch size in pixels; image height and width must be multiples of it."""
