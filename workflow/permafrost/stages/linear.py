"""``permafrost linear``: feature stores in, predictions of the chosen linear probe out."""

from __future__ import annotations

from . import probing
from .probing import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.probes.linear_probe import run_linear

    probing.run(arguments, run_linear)
