"""Every metric of masks on many resamples at once, from pixel counts.

The confusion matrix of a resample is the weighted sum of those of its units. The metrics need less:
correct pixels, pixels of each class, pixels predicted as each class. With these 3 K numbers of U
units as rows S, and the counts of B resamples as columns W, one product S W of (3 K, U) and (U, B)
gives them for all resamples.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.targets import NO_CHANGE
from permafrost.metrics.segmentation import class_counts, evaluate_counts
from permafrost.metrics.tasks import class_metrics, overall_metrics
from permafrost.statistics.resampling.resamples import Resamples

# bytes of resample counts converted to floats at a time, so that they stay in the cache
_FLOAT_BYTES = 4 << 20
# integers below this are exact in double precision, in any order of summation
_EXACT = 1 << 53


class PixelCounts:
    """Metrics of masks from pixel counts per unit.

    Parameters
    ----------
    confusion : (N, K, K) counts of each image, rows truth, columns predictions.
    units : (N,) unit of each image.
    task : a task with masks.
    dead_classes : ids of classes excluded from means.
    boundaries : (intersection, union) of boundaries, (N, K) each, or None.
    """

    def __init__(
        self, confusion, units, *, task: str = "segmentation", dead_classes=(), boundaries=None
    ) -> None:
        self.task = task
        self.classes, self.dead_classes = confusion.shape[-1], tuple(dead_classes)
        self.boundary = boundaries is not None
        counts = [*class_counts(confusion)]
        if self.boundary:
            counts += [np.asarray(each).T for each in boundaries]
        self.sums = sum_by_unit(np.concatenate(counts).astype(np.int64), np.asarray(units))

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `families.SingleLabel`: units with a pixel of a class that counts in the metric."""
        if metric in ("pixel_accuracy", "frequency_weighted_iou"):
            return None
        truths, answers = np.count_nonzero(
            self.sums[self.classes : 3 * self.classes], axis=1
        ).reshape(2, -1)
        held = answers.copy() if metric.endswith("precision") else truths.copy()
        held[list(self.dead_classes)] = 0
        if metric.startswith("change_"):
            held[NO_CHANGE] = 0
        return held

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample; NaN if undefined."""
        names = overall_metrics(self.task, self.classes, boundary=self.boundary)
        names += class_metrics(self.task, boundary=self.boundary)
        wanted = set(names if metrics is None else metrics)
        drawn = weighted_sums(self.sums, resamples)
        hits, truths, predictions, *boundary = drawn.reshape(-1, self.classes, len(resamples))
        values = evaluate_counts(
            hits,
            truths,
            predictions,
            task=self.task,
            dead_classes=self.dead_classes,
            boundary=boundary if self.boundary else None,
        )
        return {name: values[name] for name in names if name in wanted}


def weighted_sums(sums: np.ndarray, resamples: Resamples) -> np.ndarray:
    """(S, B) exact sums of (S, U) integers, weighted by the (U, B) counts.

    Uses double precision, with the fastest matrix products, if no sum can reach 2^53; otherwise
    64-bit integers.
    """
    # metrics add some of these sums, so their total must be exact
    largest = int(sums.sum()) * max(1, resamples.peak)
    kind = np.float64 if largest < _EXACT else np.int64
    # skip rows of zeros (classes that are never predicted, dead classes)
    rows = np.flatnonzero(sums.any(axis=1))
    factors = sums[rows].astype(kind)
    out = np.zeros((len(sums), len(resamples)), kind)
    step = max(1, _FLOAT_BYTES // (8 * max(1, sums.shape[1])))
    for start in range(0, len(resamples), step):
        counts = resamples.counts[:, start : start + step].astype(kind)
        out[rows, start : start + step] = factors @ counts
    return out


def sum_by_unit(counts: np.ndarray, units: np.ndarray) -> np.ndarray:
    """(S, U) sums of (S, N) counts over the images of each unit; every unit has an image."""
    order = np.argsort(units, kind="stable")
    firsts = np.flatnonzero(np.diff(units[order], prepend=-1))
    return np.add.reduceat(counts[:, order], firsts, axis=1)
