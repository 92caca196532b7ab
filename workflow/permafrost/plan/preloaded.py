"""Libraries that every job of a kind imports, so that a fork of a process which has them runs it.

Results record the versions of the packages that their process has imported. A library that only
some of the jobs import is therefore not named here: the others would record it, too.
"""

from __future__ import annotations

from permafrost.backbones.kinds import KINDS as BACKBONES
from permafrost.probes.kinds import KINDS as PROBES

_STORES = ("numpy", "pyarrow.parquet", "pydantic", "zarr")
_NETWORKS = (*_STORES, "torch")
#: the libraries of `prepare`, and of `report`
IMAGES = _STORES
PAGE = (*_STORES, "jinja2", "matplotlib.figure", "scipy.optimize")
#: `backbones.kinds.Kind.library` -> the module that its jobs import
_MODELS = {"timm": "timm", "torchgeo": "torchgeo.models"}


def of_backbone(kind: str) -> tuple[str, ...]:
    """The libraries of a job that runs a backbone of this kind."""
    library = getattr(BACKBONES.get(kind), "library", None)
    return (*_NETWORKS, *([_MODELS[library]] if library in _MODELS else []))


def of_probe(kind: str) -> tuple[str, ...]:
    """The libraries of a probe that trains networks on stored features; of others, none are needed."""
    return _NETWORKS if PROBES[kind].gpu == "auto" else ()
