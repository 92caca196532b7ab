"""Libraries that a job is certain to import, so that a process which has imported them may run it.

Results record the versions of the packages that their process imported, so a library that some
jobs do without is not named here: a job would record it although it was not used.
"""

from __future__ import annotations

from permafrost.backbones.kinds import KINDS as BACKBONES
from permafrost.probes.kinds import KINDS as PROBES

_STORES = ("numpy", "pyarrow.parquet", "pydantic", "zarr")
_NETWORKS = (*_STORES, "torch")
#: `backbones.kinds.Kind.library` -> the module that its jobs import
_MODELS = {"timm": "timm", "torchgeo": "torchgeo.models"}


def of_images() -> tuple[str, ...]:
    """The libraries of `prepare`."""
    return _STORES


def of_backbone(kind: str) -> tuple[str, ...]:
    """The libraries of a job that runs a backbone of this kind."""
    library = getattr(BACKBONES.get(kind), "library", None)
    return (*_NETWORKS, *([_MODELS[library]] if library in _MODELS else []))


def of_probe(kind: str) -> tuple[str, ...]:
    """The libraries of a probe that trains networks on stored features; of others, none are needed."""
    return _NETWORKS if PROBES[kind].gpu == "auto" else ()


def of_page() -> tuple[str, ...]:
    """The libraries of `report`."""
    return (*_STORES, "jinja2", "matplotlib.figure", "scipy.optimize")
