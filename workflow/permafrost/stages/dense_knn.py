"""``permafrost dense_knn``: maps of a layer in, predictions of nearest patches out."""

from __future__ import annotations

from . import densely
from .densely import add_arguments  # noqa: F401


def run(arguments) -> None:
    densely.run(arguments, _load)


def _load():
    from permafrost.probes.dense_knn_probe import run_dense_knn

    return run_dense_knn
