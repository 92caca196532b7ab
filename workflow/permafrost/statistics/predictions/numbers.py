"""Predictions of one number per sample, with metrics on many resamples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.ratios import divide
from permafrost.metrics.regression import MEDIAN, evaluate, from_sums, sums_of
from permafrost.statistics.predictions.columns import (
    Targets,
    array_of,
    groups_of,
    need_columns,
    sorted_rows,
)
from permafrost.statistics.replicates.weighted import weighted_by_counts
from permafrost.statistics.resampling.resamples import Resamples

# resamples whose counts are converted to floats at a time
_TOGETHER = 256
# sample counts summed at a time
_ELEMENTS = 1 << 22
# with no more samples on either side of the median, use all of them
_FEW = 1000


@dataclass(frozen=True)
class PredictedNumbers(Targets):
    """Predictions of the task ``regression``; see `Predictions`.

    Attributes
    ----------
    target, prediction : (N,) float64.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    target: np.ndarray
    prediction: np.ndarray

    task = "regression"

    @property
    def classes(self) -> list[str]:
        return []

    @classmethod
    def from_arrays(cls, sample_ids, target, prediction, *, groups=None) -> PredictedNumbers:
        """From rows in any order."""
        order, ids, groups = sorted_rows(sample_ids, groups)
        rows = [np.asarray(array, np.float64)[order] for array in (target, prediction)]
        return cls(ids, groups, *rows)

    @classmethod
    def from_table(cls, table, metadata: dict) -> PredictedNumbers:
        """From a prediction table; see `predictions_from_table`."""
        names = ("target", "prediction")
        need_columns(table, ("sample_id", *names))
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            *(array_of(table, name) for name in names),
            groups=groups_of(table),
        )

    @classmethod
    def settings_from_table(cls, table, metadata: dict, count: int) -> list[PredictedNumbers]:
        """Predictions of each of `count` settings, from its part of the column
        ``setting_numbers``."""
        need_columns(table, ("sample_id", "target", "setting_numbers"))
        names, target = table.column("sample_id").to_pylist(), array_of(table, "target")
        numbers = array_of(table, "setting_numbers", count)
        return [
            cls.from_arrays(names, target, answers, groups=groups_of(table))
            for answers in numbers.T
        ]

    def evaluate(self) -> dict:
        """Every metric on the whole test set."""
        return evaluate(self.target, self.prediction)

    def family(self, units: np.ndarray) -> SampleErrors:
        """Every metric on resamples of the units."""
        errors = self.prediction - self.target
        return SampleErrors(sums_of(self.target - self.target.mean(), errors), units, errors)


class NumberErrors:
    """Metrics of numbers from five sums per unit, so that resamples need no new evaluation.

    Parameters
    ----------
    samples : (N, 5) finite sums of each sample, as in `metrics.regression.sums_of`.
    units : (N,) unit of each sample.
    """

    task = "pixel_regression"

    def __init__(self, samples: np.ndarray, units: np.ndarray) -> None:
        self._sums = np.stack([np.bincount(units, weights=column) for column in samples.T])

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,) on each resample; NaN if undefined."""
        values = from_sums(self._weighted({"sums": self._sums}, resamples)["sums"], self.task)
        return {name: values[name] for name in values if metrics is None or name in metrics}

    def _weighted(self, parts: dict, resamples: Resamples) -> dict[str, np.ndarray]:
        # always the same number of resamples at a time, whatever the number of units
        together = 8 * _TOGETHER * self._sums.shape[1]
        return weighted_by_counts(parts, resamples, float_bytes=together)

    def largest_share(self, metric: str) -> float:
        """Share of all errors in the unit with the most: of e² for R² and RMSE, else of abs(e).

        0 if all errors are 0.
        """
        held = self._sums[1 if metric in ("r2", "rmse") else 2]
        return float(divide(held.max(), held.sum(), undefined=0.0))


class SampleErrors(NumberErrors):
    """`NumberErrors` of single samples, with the median of absolute errors.

    Parameters
    ----------
    errors : (N,) prediction - truth.
    """

    task = "regression"

    def __init__(self, samples: np.ndarray, units: np.ndarray, errors: np.ndarray) -> None:
        super().__init__(samples, units)
        absolute = np.abs(errors)
        order = np.argsort(absolute, kind="stable")
        self._ordered, self._units = absolute[order], np.asarray(units)[order]

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        values = super().replicates(resamples, metrics)
        if metrics is None or MEDIAN in metrics:
            values[MEDIAN] = self._medians(resamples)
        return values

    def _medians(self, resamples: Resamples) -> np.ndarray:
        """(B,) medians of abs(e), weighted by the units' counts; the mean of the two middle values.

        Of many samples only those around the median are used, as many as the resamples need.
        """
        size = len(self._ordered)
        around = int(8 * np.sqrt(size)) + _FEW
        while True:
            first, last = max(size // 2 - around, 0), min(size // 2 + around, size)
            inside, found = self._medians_within(first, last, resamples)
            if inside:
                return found
            around *= 4

    def _medians_within(self, first: int, last: int, resamples: Resamples):
        """Whether all medians are among the ordered samples [first, last), and these medians."""
        units = self._sums.shape[1]
        counted = np.stack([np.bincount(self._units[:first], minlength=units), self._sums[0]])
        below, total = self._weighted({"counts": counted.astype(float)}, resamples)["counts"]
        ranks = np.stack([(total + 1) // 2, total // 2 + 1]) - below
        found = np.empty(len(resamples))
        step = max(1, _ELEMENTS // (last - first))
        for start in range(0, len(resamples), step):
            chosen = slice(start, start + step)
            counts = resamples.counts[:, chosen]
            places = np.cumsum(counts[self._units[first:last]], axis=0, dtype=np.int64)
            if (ranks[0, chosen] < 1).any() or (ranks[1, chosen] > places[-1]).any():
                return False, found
            middle = [(places >= rank).argmax(axis=0) for rank in ranks[:, chosen]]
            found[chosen] = self._ordered[first:last][middle].mean(axis=0)
        return True, found
