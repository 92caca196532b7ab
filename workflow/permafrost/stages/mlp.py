"""``permafrost mlp``: feature stores in, predictions of a network of two layers out."""

from __future__ import annotations

from . import probing
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.mlp_probe import run_mlp

    probing.run(arguments, run_mlp)
