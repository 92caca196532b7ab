"""``permafrost dense_ridge``: maps of layers in, a number per pixel by ridge regression out."""

from __future__ import annotations

from . import densely
from .densely import add_arguments  # noqa: F401


def run(arguments) -> None:
    densely.run(arguments, _load)


def _load():
    from permafrost.probes.pixels.dense_ridge import run_dense_ridge

    return run_dense_ridge
