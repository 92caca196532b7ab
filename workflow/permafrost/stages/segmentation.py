"""``permafrost segmentation``: maps of layers in, predictions of a trained head out."""

from __future__ import annotations

from . import densely
from .densely import add_arguments  # noqa: F401


def run(arguments) -> None:
    from permafrost.core.allocator import keep_freed_memory

    keep_freed_memory()
    densely.run(arguments, _load)


def _load():
    from permafrost.probes.segmentation.run import run_segmentation

    return run_segmentation
