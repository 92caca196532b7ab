"""``permafrost sgd_linear``: feature stores in, predictions of a linear layer trained by gradient descent out."""

from __future__ import annotations

from . import probing
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.sgd_linear_probe import run_sgd_linear

    probing.run(arguments, run_sgd_linear)
