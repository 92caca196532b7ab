"""Scores by VOC's rules, with what intervals and comparisons need."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.intervals.replicated import Name
from permafrost.metrics.detection.voc import VocEvaluation
from permafrost.metrics.ratios import mean_of_defined


class VocScores:
    """Average precision and recall of every class and their means over classes, at every threshold.

    ``AP50`` and ``R50`` are those at an overlap of 0.5; with several thresholds, ``AP`` is the mean over them. The
    mean of a metric over classes has no class; classes without truths to be found are in none.
    """

    def __init__(self, evaluation: VocEvaluation) -> None:
        self.evaluation = evaluation
        names, ids = evaluation.truths.categories.names, evaluation.truths.categories.ids.tolist()
        self.labels = [
            f"{name} ({identity})" if names.count(name) > 1 else name
            for name, identity in zip(names, ids, strict=True)
        ]

    @property
    def thresholds(self) -> np.ndarray:
        """(T,) of the evaluation."""
        return self.evaluation.thresholds

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every score by metric and class."""
        once = np.ones((len(self.evaluation.truths.images), 1), np.int64)
        return {name: float(values[0]) for name, values in self.replicates(once).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) of every score on resamples of the images; `counts` is (I, B)."""
        precision, recall = self.evaluation.replicates(counts)
        tables = {}
        if len(self.thresholds) > 1:
            tables["AP"] = precision.mean(axis=0)
        for kind, values in (("AP", precision), ("R", recall)):
            for threshold, own in zip(self.thresholds.tolist(), values, strict=True):
                tables[f"{kind}{round(100 * threshold, 6):g}"] = own
        out: dict[Name, np.ndarray] = {}
        for metric, values in tables.items():
            out[metric, None] = mean_of_defined(values)
        for metric, values in tables.items():
            out.update(
                {(metric, label): own for label, own in zip(self.labels, values, strict=True)}
            )
        return out

    @cached_property
    def means(self) -> dict[Name, list[Name]]:
        """The scores that each mean over classes averages."""
        metrics = [metric for metric, label in self.values if label is None]
        return {(metric, None): [(metric, label) for label in self.labels] for metric in metrics}

    @cached_property
    def truths(self) -> dict[str, np.ndarray]:
        """Class to (I,) number of truths to be found in every image."""
        return dict(zip(self.labels, self.evaluation.positives, strict=True))


def check_same(one: VocEvaluation, other: VocEvaluation) -> None:
    """Refuse to compare evaluations of different truths or by different rules."""
    pairs = {
        "images": (one.truths.images.ids, other.truths.images.ids),
        "categories": (one.truths.categories.ids, other.truths.categories.ids),
        "annotations": (one.truths.ids, other.truths.ids),
        "IoU thresholds": (one.thresholds, other.thresholds),
    }
    for what, (first, second) in pairs.items():
        if not np.array_equal(first, second):
            raise PermafrostError(
                f"the two evaluations have different {what}",
                where="comparison",
                remedy="evaluate both predictions against the same truth with the same options",
            )
