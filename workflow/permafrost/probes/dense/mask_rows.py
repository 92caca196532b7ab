"""Predicted masks as the table that statistics and reports read; no torch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from permafrost.metrics.segmentation.boundary import boundary_counts
from permafrost.probes.dense.mask_splits import MaskSplit
from permafrost.probes.dense.shown import encode_mask
from permafrost.probes.dense.tables import ImageRows, Outcome, write_dense_table
from permafrost.probes.job import ProbeJob


class MaskRows(ImageRows[MaskSplit]):
    """The rows of the table; pictures are rated by pixel accuracy, those with a scored pixel."""

    picture, encode = "mask", encode_mask

    def __init__(self, test: MaskSplit, job: ProbeJob, put) -> None:
        super().__init__(test, job, put)
        self.confusion: list[np.ndarray] = []
        self.boundary: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, truth: np.ndarray, prediction: np.ndarray, confusion: np.ndarray) -> None:
        """The next image: truth and prediction (h, w), and their (K, K) confusion matrix."""
        row, scored = len(self.confusion), confusion.sum()
        self.confusion.append(confusion)
        ratio = self.options.boundary
        if ratio is not None:
            classes, ignored = len(self.test.classes), self.test.ignore_index
            self.boundary.append(boundary_counts(truth, prediction, classes, ratio, ignored))
        accuracy = float(np.trace(confusion) / scored) if scored else None
        self.shown.offer(row, accuracy, prediction)
        self.put(row, prediction)

    def table(self) -> pa.Table:
        """One row per test image."""
        classes = len(self.test.classes)
        confusion = {"confusion": _fixed(self.confusion, classes * classes)}
        columns = self.columns(len(self.confusion), confusion)
        if self.options.boundary is not None:
            for i, name in enumerate(("boundary_intersection", "boundary_union")):
                columns[name] = _fixed([counts[i] for counts in self.boundary], classes)
        return pa.table(columns)

    def write(
        self,
        job: ProbeJob,
        splits: dict[str, MaskSplit],
        outcome: Outcome,
        *,
        head: str | None = None,
    ) -> None:
        """Write the table; `head` is that of a trained probe."""
        write_masks(job, splits, self.table(), outcome, head=head)


def _fixed(rows: list[np.ndarray], width: int) -> pa.Array:
    flat = np.stack(rows).reshape(-1) if rows else np.empty(0)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(np.int64)), width)


def write_masks(
    job: ProbeJob,
    splits: dict[str, MaskSplit],
    table: pa.Table,
    outcome: Outcome,
    *,
    head: str | None,
    **further,
) -> None:
    """Write the table; `head` is that of a trained probe, `further` goes into the metadata."""
    test = splits["test"]
    write_dense_table(
        job,
        splits,
        table,
        outcome,
        ignore_index=test.ignore_index,
        dead_classes=test.dead_classes,
        resolution=job.options.resolution,
        head=head,
        **further,
    )
