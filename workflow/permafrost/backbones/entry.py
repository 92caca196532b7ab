"""The keys of an entry of a catalogue that backbones of several kinds have."""

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
    """How to run; never part of a result's identity."""

    batch_size: LeftOut[Positive] = None
    """Images per forward pass."""


@dataclass(frozen=True, kw_only=True)
class Described(Options):
    """What an entry says of a backbone besides how it is built."""

    title: LeftOut[str] = None
    """Name shown in tables and figures."""
    description: LeftOut[str] = None
    licence: LeftOut[str] = None
    citation: LeftOut[str] = None
    url: LeftOut[str] = None
    year: LeftOut[Annotated[int, Interval(ge=1900, le=2100)]] = None
    """Of the publication."""
    parameters: LeftOut[Natural] = None
    """Number of parameters of the model that is run, without heads."""
    trained_on: LeftOut[AnyDifferent[Name]] = None
    """Collections of images that the weights were trained with, in lower case (ssl4eo-s12, imagenet-1k); empty for
    random weights. If a dataset names one of them under `images_of`, the page says so."""
    runtime: LeftOut[Runtime] = None
    """How to run; never part of a result's identity."""
    environment: LeftOut[
        Annotated[str, Matches("lower-case letters, digits and -", r"^[a-z0-9][a-z0-9-]*$(?!\n)")]
    ] = None
    """Name of a separate environment, which envs/NAME.lock, envs/NAME.yaml (conda) or envs/NAME.sif (apptainer)
    defines. Left out, the backbone runs in the main one."""


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
    number is a wavelength in nanometres, and means the one band within 20 nm of it."""
    size: OrNull[Positive] = None
    """Side in pixels that images are resized to; null keeps the native size."""
    crop: LeftOut[Positive] = None
    """Side of the centre crop taken after resizing."""
    interpolation: LeftOut[Literal["bilinear", "bicubic", "nearest"]] = None
    antialias: LeftOut[bool] = None
    normalization: LeftOut[
        Literal["weights", "dataset", "two_sigma", "percentile", "minmax", "none"]
    ] = None
    """Statistics of the weights, z-scores of the dataset's train split, mean ± 2 standard deviations to [0, 1] (of
    `mean` and `std`, or else of the train split), the 2nd and 98th percentile of the train split to [0, 1], its
    range to [0, 1], or stored values."""
    clip: LeftOut[bool] = None
    """With two_sigma, percentile or minmax, values beyond [0, 1] become 0 and 1."""
    mean: LeftOut[float | Some[float]] = None
    """Mean that the weights were trained with, in `unit`."""
    std: LeftOut[float | Some[float]] = None
    """Standard deviation that the weights were trained with, in `unit`."""
    unit: LeftOut[Unit | Some[Unit]] = None
    """Unit of mean and std, one for all channels or one each."""
    missing: LeftOut[Literal["error", "zero", "nearest", "leave_out"]] = None
    """How to treat bands that the dataset lacks; zero uses the neutral value of the normalisation (0 for z-scores),
    nearest the band with the nearest wavelength within `nearest_nm`, which feature stores record; leave_out passes
    fewer channels, to models that take any of their bands."""
    nearest_nm: LeftOut[Above0] = None
    """Largest distance of centres in nanometres."""
    dates: LeftOut[Literal["each", "all"]] = None
    """Of a series or pair, each date is passed alone, and probes reduce the features of dates; or all of them at
    once, for Galileo, OlmoEarth, Presto, TESSERA, or an entrypoint whose module takes (B, T, C, H, W) and gives the
    features of a sample."""
    metadata: LeftOut[Literal["fed", "withheld"]] = None
    """Place, date and ground distance go to models that take them, if they are known of all samples of the dataset;
    withheld keeps them from the model, which shows how much they contribute."""
    white: LeftOut[Above0] = None
    """Reflectance that 8-bit pictures like those of the weights' training show as 255, for images in reflectance.
    With `fit: authors`, also that of pictures whose dataset states none, for weights in reflectance that only
    divide."""


@dataclass(frozen=True, kw_only=True)
class Imaged(Described):
    """Keys of a backbone that reads pixels."""

    input: Input = field(default_factory=Input)
    """Input of the backbone. Keys that are left out follow from its weights, then from `extraction`."""
    layers: LeftOut[Different[Text]] = None
    """Layers whose maps segmentation and detection use, coarse to fine, by their names in the model (layer4,
    blocks.11, stages.3). Left out, those of the family."""


@dataclass(frozen=True, kw_only=True)
class Grid(Options):
    """Grid of the maps of a backbone that reads places."""

    size: Positive | None = None
    """Side of the maps of dense tasks; null gives every pixel of the image a cell."""


@dataclass(frozen=True, kw_only=True)
class Placed(Described):
    """Keys of a backbone that reads places and no pixels."""

    input: Grid = field(default_factory=Grid)


@dataclass(frozen=True, kw_only=True)
class Seeded(Options):
    """Options of a backbone in which chance plays a part."""

    seed: Annotated[int, Interval(ge=0, le=2**63 - 1)] = 0
    """Of everything random in the backbone."""


@dataclass(frozen=True, kw_only=True)
class Pooled(Seeded):
    """Options of a backbone whose tokens are pooled."""

    pooling: LeftOut[Literal["mean", "cls", "both"]] = None
    """How tokens become one vector. Left out, the model's own pooling is used."""


@dataclass(frozen=True, kw_only=True)
class WeightsFile(Options):
    """A file of weights."""

    source: Literal["file"]
    path: Text
    """A .safetensors file, or a state dict that torch.load reads with weights_only=True."""


@dataclass(frozen=True, kw_only=True)
class Selected(Options):
    """Options of a state dict that holds more than the model, or by other names."""

    drop: LeftOut[Different[Text]] = None
    """Patterns (decoder*) of names of tensors in the file that the model does not have, such as those of a decoder.
    Feature stores list the dropped tensors; a pattern that drops nothing is an error."""
    prefix: LeftOut[Text] = None
    """Prefix of the names of the tensors in the file that the model's names lack (encoder.)."""


@dataclass(frozen=True, kw_only=True)
class Encoded(Seeded):
    """Options of an encoder whose authors publish a file of weights."""

    weights: WeightsFile | None
    """The authors' file of weights, or null for random ones."""
    patch_size: Annotated[int, Interval(ge=1, le=8)] = 8
    """Side of a patch in pixels; the sides of images are multiples of it."""
