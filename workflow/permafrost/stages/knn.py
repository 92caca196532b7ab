"""``permafrost knn``: feature stores in, predictions of a nearest-neighbour classifier out."""

from __future__ import annotations

from . import probing
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.knn_probe import run_knn

    probing.run(arguments, run_knn)
