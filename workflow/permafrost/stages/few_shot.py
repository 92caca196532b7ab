"""``permafrost few_shot``: feature stores in, predictions after small draws of the training set out."""

from __future__ import annotations

from . import several
from .several import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.few_shot import run_few_shot

    # without backbone and probe: all of them are given the same draws
    several.run(arguments, run_few_shot, seed_of=("dataset", "seed"))
