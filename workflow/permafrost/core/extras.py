"""Libraries of the package's extras, and the error if one is missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec

from permafrost.core.errors import PermafrostError

#: extra of the package -> modules that only this extra installs
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
    """The error for a module that cannot be found; None if no extra installs it."""
    top = module.partition(".")[0]
    for extra, libraries in LIBRARIES.items():
        if top in libraries:
            return PermafrostError(f"the library {top!r} is not installed", remedy=remedy(extra))
    return None


def remedy(extra: str) -> str:
    """How to install the libraries of an extra."""
    name = os.environ.get("PERMAFROST_ENV", "cpu")
    if name not in ("cpu", "cuda"):
        # envs/run started the job in a backbone's own environment
        return f"add it to envs/{name}.in and run envs/lock.sh (docs/install.md)"
    return f"pip install 'permafrost[{extra}]'"


def absent(extra: str) -> list[str]:
    """Modules of an extra that are not installed."""
    return [name for name in LIBRARIES[extra] if find_spec(name) is None]


def need(*modules: str) -> None:
    """Check that these modules, each of an extra, are installed.

    Raises
    ------
    PermafrostError : one is missing; names the command that installs it.
    """
    for module in modules:
        if find_spec(module) is None:
            raise missing(module)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn a failed import of an extra's library into a `PermafrostError`; also a decorator."""
    try:
        yield
    except ModuleNotFoundError as error:
        known = missing(error.name or "")
        if known is None:
            raise
        raise known from error
