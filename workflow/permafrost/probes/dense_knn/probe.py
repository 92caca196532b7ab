"""Dense nearest neighbours, whatever the pixels have: classes or numbers."""

from __future__ import annotations

from pathlib import Path

from permafrost.probes.dense.splits import MapSplit
from permafrost.probes.dense_knn.classes import run_dense_knn as run_dense_classes
from permafrost.probes.dense_knn.numbers import run_dense_numbers
from permafrost.probes.pixels.splits import TASK


def run_dense_knn(stores: dict[str, Path], output: Path, *, spec: dict, **how) -> None:
    """Parameters and errors as `run_dense_classes`, which it calls unless targets are numbers."""
    train = MapSplit(stores["train"], expect=spec["inputs"]["features"], split="train")
    run = run_dense_numbers if train.attributes["task"] == TASK else run_dense_classes
    run(stores, output, spec=spec, **how)
