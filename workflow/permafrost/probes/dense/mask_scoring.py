"""Score predicted classes of pixels: the validation metric of a head, and the rows of the test split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from permafrost.core.errors import PermafrostError
from permafrost.metrics.segmentation import evaluate
from permafrost.metrics.tasks import primary_metric
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.dense.tables import MaskRows

# bytes of logits in memory at once when scoring the test split
SCORED_BYTES = 128 * 2**20


@dataclass(frozen=True)
class MaskTask:
    """The task and its classes."""

    name: str
    classes: int
    ignore_index: int | None
    dead_classes: tuple[int, ...]

    @classmethod
    def of(cls, train: MaskSplit) -> MaskTask:
        """From the train split; an ignored class counts as dead."""
        ids, ignored = range(len(train.classes)), train.ignore_index
        dead = {*train.dead_classes} | ({ignored} & {*ids})
        return cls(train.attributes["task"], len(ids), ignored, tuple(sorted(dead)))


class MaskScore:
    """The task's primary metric of all added batches, at the working size."""

    def __init__(self, task: MaskTask) -> None:
        self.task, self.confusion = task, 0

    def add(self, batch, logits: torch.Tensor) -> None:
        """Count the pixels of a batch; logits are (B, classes, *working size)."""
        task = self.task
        counts = confusion_per_image(
            batch.masks, logits.argmax(dim=1), task.classes, task.ignore_index
        )
        self.confusion = self.confusion + counts.sum(dim=0).cpu().numpy()

    def value(self) -> float | None:
        """The metric; None if it is undefined."""
        task = self.task
        values = evaluate(self.confusion, task=task.name, dead_classes=task.dead_classes)
        score = float(values[primary_metric(task.name)])
        return None if math.isnan(score) else score


def confusion_per_image(
    truth: torch.Tensor, prediction: torch.Tensor, classes: int, ignore_index: int | None
) -> torch.Tensor:
    """(B, K, K) int64 counts from class ids (B, H, W); rows truth, columns prediction, without ignored pixels."""
    images = torch.arange(len(truth), device=truth.device)[:, None, None]
    cells = (images * classes + truth) * classes + prediction
    if ignore_index is not None:
        cells = cells[truth != ignore_index]
    counts = torch.bincount(cells.reshape(-1), minlength=len(truth) * classes * classes)
    return counts.reshape(len(truth), classes, classes)


@torch.no_grad()
def score_batches(rows: MaskRows, batches: Iterable, predict: Callable) -> None:
    """Add the predictions of every batch to `rows`; `predict`(batch, slice, size) -> logits (n, classes, *size)."""
    for batch in batches:
        for places in _together(batch, rows):
            size = rows.size(int(batch.rows[places[0]]))
            logits = predict(batch, slice(places[0], places[-1] + 1), size)
            if not torch.isfinite(logits).all():
                raise _not_finite(rows.test, batch.rows[places])
            _add(rows, batch.rows[places], logits)


def _together(batch, rows: MaskRows):
    """Yield runs of images of one scored size whose logits fit into `SCORED_BYTES`."""
    run: list[int] = []
    for place, row in enumerate(batch.rows):
        size = rows.size(int(row))
        pixels = size[0] * size[1] * len(rows.test.classes) * 4
        full = (len(run) + 1) * pixels > SCORED_BYTES
        if run and (full or size != rows.size(int(batch.rows[run[0]]))):
            yield run
            run = []
        run.append(place)
    if run:
        yield run


def _add(rows: MaskRows, numbers: np.ndarray, logits: torch.Tensor) -> None:
    truths = rows.truths(int(numbers[0]), int(numbers[-1]) + 1)
    truth = torch.from_numpy(np.stack(truths).astype(np.int64)).to(logits.device)
    prediction = logits.argmax(dim=1)
    test = rows.test
    confusion = confusion_per_image(truth, prediction, len(test.classes), test.ignore_index)
    kind = np.uint8 if len(test.classes) <= 256 else np.int32
    for image in zip(
        truths, prediction.cpu().numpy().astype(kind), confusion.cpu().numpy(), strict=True
    ):
        rows.add(*image)


def _not_finite(test: MaskSplit, numbers: np.ndarray) -> PermafrostError:
    first = test.samples["sample_id"][int(numbers[0])].as_py()
    return PermafrostError(
        f"the head gives NaN or infinity for test images from {first!r} on",
        where=test.path,
        remedy="check that the maps are finite (extract with maps_dtype float32), use precision fp32,"
        " or a smaller learning_rate",
    )
