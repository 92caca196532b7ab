"""Every metric of a task on many resamples at once, from the counts of each resample.

A family is built from the predictions of a test set and then evaluated on resamples. It yields the
same names as `metrics.classification`, each with a trailing axis of resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from permafrost.core.targets import ManyLabels, OneClass, Targets, by_targets
from permafrost.core.tasks import targets_of
from permafrost.metrics.classification import (
    check_task,
    check_width,
    metrics_of_counts,
    metrics_of_labels,
    micro_f1,
    top_k_hits,
)
from permafrost.metrics.ratios import divide
from permafrost.metrics.tasks import TOP_K, class_metrics, overall_metrics
from permafrost.statistics.replicates.rankings import Ranking
from permafrost.statistics.replicates.totals import Segments
from permafrost.statistics.resampling.carriers import units_of_each
from permafrost.statistics.resampling.resamples import Resamples

_MACRO = ("macro_precision", "macro_recall", "macro_f1")


class Family(Protocol):
    """Metrics of predictions on resamples."""

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample; NaN if undefined."""


class SingleLabel:
    """Metrics of single-label classification from hits and misses per class.

    Parameters
    ----------
    target, prediction : (N,) class ids in [0, K).
    scores : (N, K).
    classes : K.
    units : (N,) unit of each sample.
    """

    def __init__(self, target, prediction, scores, classes: int, units) -> None:
        self.classes, self.units, self.scores = classes, np.asarray(units), scores
        self.target, self.prediction = np.asarray(target), np.asarray(prediction)
        self.hit = self.target == self.prediction
        self.sizes = np.bincount(self.units)

    # shares of correct samples, each counted once: binomial if samples are the units
    proportions = frozenset({"accuracy", "top5_accuracy", "recall", "precision"})

    def holders(self, metric: str) -> np.ndarray | None:
        """(K,) units of each class that a metric is of, or averages; None if all carry it."""
        if metric.endswith("precision"):
            return self._answered
        return self._held if metric in ("recall", "balanced_accuracy", *_MACRO) else None

    @cached_property
    def _held(self) -> np.ndarray:
        return units_of_each(self.target, self.units, self.classes)

    @cached_property
    def _answered(self) -> np.ndarray:
        return units_of_each(self.prediction, self.units, self.classes)

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample; NaN if undefined."""
        wanted = set(_names("classification", self.classes) if metrics is None else metrics)
        drawn = self._drawn(resamples)
        values = {}
        if "accuracy" in wanted:
            # sums over classes give the same, but require the counts of each class
            values["accuracy"] = share_of(self.hit, self.units, resamples, drawn)
        if "top5_accuracy" in wanted:
            values["top5_accuracy"] = share_of(self._top_hits, self.units, resamples, drawn)
        if wanted - set(values):
            values = self._per_class(resamples) | values
        return {name: values[name] for name in values if name in wanted}

    @cached_property
    def _top_hits(self) -> np.ndarray:
        return top_k_hits(self.target, self.scores, TOP_K)

    def _drawn(self, resamples: Resamples):
        """Number of samples in each resample, (B,) or one for all."""
        if len(self.sizes) == len(self.units):
            return resamples.size
        everything = Segments(self.units, [0, len(self.units)])
        return everything.totals(resamples)[0].astype(np.int64)

    def _per_class(self, resamples: Resamples) -> dict[str, np.ndarray]:
        hits = self._by_class(self.target, self.hit, resamples)
        targets = hits + self._by_class(self.target, ~self.hit, resamples)
        predictions = hits + self._by_class(self.prediction, ~self.hit, resamples)
        return metrics_of_counts(hits, targets, predictions)

    def _by_class(self, labels, chosen: np.ndarray, resamples: Resamples) -> np.ndarray:
        """(K, B) int64 number of the `chosen` samples of each class in each resample."""
        segments = Segments.by_label(self.units[chosen], labels[chosen], self.classes)
        return segments.totals(resamples).astype(np.int64)


class MultiLabel:
    """Metrics of multi-label classification: average precision from rankings, F1 from counts.

    Parameters
    ----------
    target : (N, L) of 0 and 1.
    prediction : (N, L) of 0 and 1.
    scores : (N, L) without NaN.
    classes : L.
    units : (N,) unit of each sample.
    """

    def __init__(self, target, prediction, scores, classes: int, units) -> None:
        self.target, self.scores = np.asarray(target) != 0, np.asarray(scores)
        self.prediction = np.asarray(prediction) != 0
        self.classes, self.units = classes, np.asarray(units)
        self._rankings: dict[int | None, Ranking] = {}

    proportions: frozenset[str] = frozenset()

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `SingleLabel`: units in which a label is true; (1,) for all labels together."""
        if metric in ("micro_ap", "micro_f1"):
            return np.array([len(np.unique(self.units[self.target.any(axis=1)]))])
        return self._held if metric in ("average_precision", "macro_ap") else None

    @cached_property
    def _held(self) -> np.ndarray:
        rows, labels = np.nonzero(self.target)
        return units_of_each(labels, self.units[rows], self.classes)

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (L, B) per class, on each resample; NaN if undefined."""
        wanted = set(_names("multilabel", self.classes) if metrics is None else metrics)
        pooled, each, f1 = None, np.empty((self.classes, 0)), None
        if "micro_ap" in wanted:
            pooled = self._ranking(None).average_precision(resamples)
        if "micro_f1" in wanted:
            f1 = micro_f1(*self._label_counts(resamples))
        if wanted - {"micro_ap", "micro_f1"}:
            each = np.stack(
                [self._ranking(label).average_precision(resamples) for label in range(self.classes)]
            )
        values = metrics_of_labels(pooled, each, f1)
        return {name: values[name] for name in values if name in wanted}

    def _label_counts(self, resamples: Resamples) -> np.ndarray:
        """(3, B) counts as in `metrics.classification.label_counts`."""
        found = (self.target & self.prediction, self.target, self.prediction)
        rows = [self.units[np.nonzero(labels)[0]] for labels in found]
        bounds = np.cumsum([0, *map(len, rows)])
        return Segments(np.concatenate(rows), bounds).totals(resamples).astype(np.int64)

    def _ranking(self, label: int | None) -> Ranking:
        """The ranking of one class, or of all entries together; cached for the next block."""
        if label not in self._rankings:
            if label is None:
                ranking = Ranking(self.target.ravel(), self.scores.ravel(), self.units)
            else:
                ranking = Ranking(self.target[:, label], self.scores[:, label], self.units)
            self._rankings[label] = ranking
        return self._rankings[label]


def share_of(hit: np.ndarray, units: np.ndarray, resamples: Resamples, drawn) -> np.ndarray:
    """(B,) share of samples with `hit` in each resample; sums only the rows of the rarer outcome.

    Parameters
    ----------
    hit : (N,) bool.
    units : (N,) unit of each sample.
    drawn : number of samples in each resample, (B,) or one for all.
    """
    rarer = hit if np.count_nonzero(hit) * 2 <= len(hit) else ~hit
    rows = units[rarer]
    total = Segments(rows, [0, len(rows)]).totals(resamples)[0].astype(np.int64)
    return divide(total if rarer is hit else drawn - total, drawn)


FAMILIES: dict[type[Targets], Callable[..., Family]] = {
    OneClass: SingleLabel,
    ManyLabels: MultiLabel,
}


def make_family(target, prediction, scores, *, task: str, classes: int, units) -> Family:
    """The family of `task`; raises PermafrostError for another task or a wrong score width."""
    check_task(task)
    check_width(scores, classes)
    return by_targets(FAMILIES, targets_of(task))(target, prediction, scores, classes, units)


def _names(task: str, classes: int) -> tuple[str, ...]:
    return overall_metrics(task, classes) + class_metrics(task)
