"""Libraries that ``pip install permafrost`` leaves out, and what is said where one is missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec

from permafrost.core.errors import PermafrostError

#: extra of the package -> the libraries that only it brings, as they are imported
LIBRARIES = {
    "cpu": ("faiss",),
    "rasters": ("rasterio",),
    "workflow": (
        "h5py", "huggingface_hub", "jinja2", "kornia", "markupsafe", "matplotlib",
        "olmoearth_pretrain_minimal", "pyogrio", "pyproj", "rocrate", "safetensors",
        "segmentation_models_pytorch", "snakemake", "timm", "torch", "torchgeo",
        "torchmetrics", "torchvision", "vl_convert",
    ),
}  # fmt: skip


def missing(module: str) -> PermafrostError | None:
    """What is said of a module that cannot be found; None where no extra brings it."""
    top = module.partition(".")[0]
    for extra, libraries in LIBRARIES.items():
        if top in libraries:
            return PermafrostError(f"the library {top!r} is not installed", remedy=remedy(extra))
    return None


def remedy(extra: str) -> str:
    """How the libraries of an extra are installed."""
    name = os.environ.get("PERMAFROST_ENV", "cpu")
    if name not in ("cpu", "cuda"):
        # envs/run set up an environment of a backbone's own
        return f"add it to envs/{name}.in and run envs/lock.sh (docs/install.md)"
    return f"pip install 'permafrost[{extra}]'"


def absent(extra: str) -> list[str]:
    """The libraries of an extra that are not installed."""
    return [name for name in LIBRARIES[extra] if find_spec(name) is None]


def need(*modules: str) -> None:
    """Refuse to begin without these libraries.

    Raises
    ------
    PermafrostError : one of them is missing; how it is installed.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(module)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raise a `PermafrostError` where a library of an extra is missing; also a decorator of functions."""
    try:
        yield
    except ModuleNotFoundError as error:
        known = missing(error.name or "")
        if known is None:
            raise
        raise known from error
