"""``permafrost knn_sweep``: feature stores in, predictions of nearest neighbours under many settings out."""

from __future__ import annotations

from . import several
from .several import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.knn_sweep import run_knn_sweep

    several.run(arguments, run_knn_sweep)
