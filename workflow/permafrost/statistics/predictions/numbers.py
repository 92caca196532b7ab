"""Predictions of one number per sample, and their metrics on many resamples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.regression import evaluate, from_sums, sums_of
from permafrost.statistics.predictions.columns import (
    Targets,
    array_of,
    groups_of,
    need_columns,
    sorted_rows,
)
from permafrost.statistics.replicates.weighted import weighted_by_counts
from permafrost.statistics.resampling.resamples import Resamples

# resamples whose counts are turned into floats at a time
_TOGETHER = 256


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
        """What each of `count` settings predicted, from its part of the column ``setting_numbers``."""
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

    def family(self, units: np.ndarray) -> NumberErrors:
        """Every metric on resamples of the units."""
        sums = sums_of(self.target - self.target.mean(), self.prediction - self.target)
        return NumberErrors(sums, units)


class NumberErrors:
    """Metrics of numbers from five sums per unit: nothing is evaluated anew for a resample.

    Parameters
    ----------
    samples : (N, 5) finite sums of each sample, as `metrics.regression.sums_of` has them.
    units : (N,) unit of each sample.
    """

    def __init__(self, samples: np.ndarray, units: np.ndarray) -> None:
        self._sums = np.stack([np.bincount(units, weights=column) for column in samples.T])

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,) on each resample; NaN if undefined."""
        # as many resamples at a time, whatever the number of units
        together = {"float_bytes": 8 * _TOGETHER * self._sums.shape[1]}
        values = from_sums(weighted_by_counts({"sums": self._sums}, resamples, **together)["sums"])
        return {name: values[name] for name in values if metrics is None or name in metrics}
