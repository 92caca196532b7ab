"""``permafrost ridge``: feature stores in, numbers predicted by ridge regression out."""

from __future__ import annotations

from . import probing
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.ridge_probe import run_ridge

    probing.run(arguments, run_ridge)
