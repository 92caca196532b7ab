"""What the jobs are told that run a backbone over images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Options, Positive
from permafrost.core.specification import Specification


@dataclass(frozen=True, kw_only=True)
class ExtractionSettings(Options):
    """How features are computed, if a backbone's entry says nothing else."""

    size: Positive | None = 224
    """Side in pixels that images are resized to; null keeps the native size."""
    interpolation: Literal["bilinear", "bicubic", "nearest"] = "bilinear"
    antialias: bool = False
    dtype: Literal["float32", "float16"] = "float32"
    """Type of the embeddings on disk."""
    maps_dtype: Literal["float16", "float32"] = "float16"
    """Type of the maps of layers on disk, which probes of pixels and objects read."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Precision of the forward pass."""
    compile: bool = False
    """Use torch.compile."""


@dataclass(frozen=True, kw_only=True)
class Extraction(ExtractionSettings):
    """The options of an extraction.

    Attributes
    ----------
    dtype, maps_dtype : None if no embeddings, or no maps, are written.
    maps : whether maps of layers are needed, which the plan asks for if the task needs them.
    fit : the study's policy for datasets that lack what a backbone needs.
    """

    dtype: Literal["float32", "float16"] | None = None
    maps: bool = False
    maps_dtype: Literal["float16", "float32"] | None = None
    fit: str = "strict"

    def __post_init__(self) -> None:
        if self.maps_dtype not in (None, "float16", "float32"):
            raise PermafrostError(
                f"unknown maps_dtype {self.maps_dtype!r}, known: float16, float32",
                where="extraction",
            )

    def feeding(self) -> dict:
        """The options that decide on what a backbone is fed."""
        return {name: getattr(self, name) for name in ("size", "interpolation", "antialias", "fit")}


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a backbone is run, which is no part of the identity of the result.

    Attributes
    ----------
    batch_size : images per forward pass.
    workers : threads that read images ahead.
    threads : of torch on the CPU; None leaves them as they are.
    """

    device: str = "auto"
    batch_size: int = 64
    workers: int = 2
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class OfImages:
    """Fingerprint of the image stores."""

    images: str


@dataclass(frozen=True, kw_only=True)
class BackboneSpec(Specification):
    """What every job is told that runs a backbone over images.

    Attributes
    ----------
    files : digests of the files that the plan was made from, by path; none in a job that was written by hand.
    package : the installed package of an entry point, name to version.
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
    """What `extract` is told."""

    stage: str = "extract"


@dataclass(frozen=True, kw_only=True)
class ViewsSpec(BackboneSpec):
    """What `extract_views` is told.

    Attributes
    ----------
    augmentations : ``views`` (q of each image), ``images`` (N, of more those are drawn), ``seed``, and what
        `draw_view` takes.
    """

    stage: str = "views"
    split: str
    augmentations: dict


@dataclass(frozen=True, kw_only=True)
class ProfileSpec(BackboneSpec):
    """What `profile_backbone` is told; `options` are described there."""

    stage: str = "profile"
    options: dict
