"""Specifications of jobs that run a backbone over images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Different, LeftOut, Options, Positive, ShareOrAll
from permafrost.core.specification import Specification
from permafrost.features.kept_layers import KeptLayers


@dataclass(frozen=True, kw_only=True)
class ExtractionSettings(Options):
    """How features are computed, unless a backbone's entry overrides it."""

    size: Positive | None = 224
    """Size in pixels that images are resized to (square); null keeps the native size."""
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    antialias: bool = False
    dtype: Literal["float32", "float16"] = "float32"
    """Type of the embeddings on disk."""
    maps_dtype: Literal["float32", "float16"] = "float16"
    """Type on disk of feature maps, which probes of pixels and objects read."""
    maps_channels: LeftOut[Positive] = None
    """Feature maps with more channels are projected to this number, the directions that lose least of the train patches
    (docs/probes.md). Scores change, and their rows have the warning `projected_maps`. Left out: all are stored."""
    precision: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    """Precision of the forward pass. tf32: float32, with TF32 in matrix products and convolutions on a GPU; on a CPU
    the same to the byte as fp32."""
    compile: bool = False
    """Use torch.compile."""
    depths: LeftOut[Literal["all"] | Different[ShareOrAll]] = None
    """Also store features of the blocks of each backbone (tokens or maps, averaged): of all, or of those nearest to
    these shares of its depth. Derived backbones read them with the step `depth` (docs/derived.md)."""


@dataclass(frozen=True, kw_only=True)
class Extraction(ExtractionSettings):
    """The options of an extraction.

    Attributes
    ----------
    dtype, maps_dtype : None if embeddings, or feature maps, are not written.
    maps : whether the task needs feature maps.
    fit : policy of the study for datasets that lack an input of a backbone.
    """

    dtype: Literal["float32", "float16"] | None = None
    maps: bool = False
    maps_dtype: Literal["float32", "float16"] | None = None
    fit: str = "strict"

    def __post_init__(self) -> None:
        if self.maps_dtype not in (None, "float16", "float32"):
            raise PermafrostError(
                f"unknown maps_dtype {self.maps_dtype!r}, known: float16, float32",
                where="extraction",
            )

    def feeding(self) -> dict:
        """The options that affect the input of a backbone."""
        return {name: getattr(self, name) for name in ("size", "interpolation", "antialias", "fit")}


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a backbone is run; not part of the fingerprint.

    Attributes
    ----------
    device : ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    batch_size : images per forward pass.
    workers : threads that prefetch images.
    threads : CPU threads of torch; None: unchanged.
    kept : the layers whose maps are stored; None: all.
    """

    device: str = "auto"
    batch_size: int = 64
    workers: int = 2
    threads: int | None = None
    kept: KeptLayers | None = None


@dataclass(frozen=True, kw_only=True)
class OfImages:
    """Fingerprint of the image stores."""

    images: str


@dataclass(frozen=True, kw_only=True)
class BackboneSpec(Specification):
    """Specification of every job that runs a backbone over images.

    Attributes
    ----------
    entry : the backbone's catalogue entry.
    files : path to the expected digest; empty in a job written by hand.
    package : name to version of the installed package with the entry point.
    """

    dataset: str
    backbone: str
    entry: dict
    extraction: Extraction
    inputs: OfImages
    files: dict = field(default_factory=dict)
    package: dict = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExtractSpec(BackboneSpec):
    """Specification of `extract`."""

    stage: str = "extract"


@dataclass(frozen=True, kw_only=True)
class ViewsSpec(BackboneSpec):
    """Specification of `extract_views`.

    Attributes
    ----------
    augmentations : ``views`` (q per image), ``images`` (N, sampled from the split if it has more),
        ``seed``, and the options of `draw_view`.
    """

    stage: str = "views"
    split: str
    augmentations: dict


@dataclass(frozen=True, kw_only=True)
class ProfileSpec(BackboneSpec):
    """Specification of `profile_backbone`, which describes `options`."""

    stage: str = "profile"
    options: dict
