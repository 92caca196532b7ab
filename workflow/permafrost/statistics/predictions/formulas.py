"""Metrics of plug-ins: formulas applied to the predictions of a test set and its resamples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.tasks import Metric, added_metrics
from permafrost.statistics.resampling.resamples import Resamples

if TYPE_CHECKING:
    from permafrost.statistics.predictions.reading import Predictions
    from permafrost.statistics.replicates.families import Family


def evaluated(predictions: Predictions) -> dict:
    """Every metric on the whole test set, those of plug-ins last."""
    values, once = predictions.evaluate(), np.ones(len(predictions), np.int64)
    own = [one for one in added_metrics(predictions.task) if one.name not in values]
    return values | {one.name: apply(one, predictions, once) for one in own}


def family_of(predictions: Predictions, units: np.ndarray) -> Family:
    """Every metric, with those of plug-ins, on resamples of the units (N,), see `units`."""
    return with_formulas(predictions.family(units), predictions, units)


def with_formulas(family: Family, predictions: Predictions, units: np.ndarray) -> Family:
    """A family with the plug-in metrics of its task, unless it already has them."""
    own = added_metrics(predictions.task)
    complete = not own or getattr(family, "has_formulas", False)
    return family if complete else _WithFormulas(family, predictions, units, own)


@dataclass(frozen=True)
class _WithFormulas:
    """A family with metrics computed for each resample; other attributes are those of `family`."""

    family: Family
    predictions: Predictions
    units: np.ndarray
    own: list[Metric]

    has_formulas = True

    def __getattr__(self, name: str):
        return getattr(self.family, name)

    def holders(self, metric: str) -> np.ndarray | None:
        """As in `families.SingleLabel`; all units carry a metric of a plug-in."""
        known = getattr(self.family, "holders", lambda _: None)
        return None if metric in {one.name for one in self.own} else known(metric)

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,), or (K, B) per class, on each resample; NaN if undefined."""
        own = [one for one in self.own if metrics is None or one.name in metrics]
        others = None if metrics is None else {*metrics} - {one.name for one in own}
        values = {} if others == set() else self.family.replicates(resamples, others)
        for one in own:
            drawn = [
                apply(one, self.predictions, resamples.counts[self.units, place].astype(np.int64))
                for place in range(len(resamples))
            ]
            values[one.name] = np.stack(drawn, axis=-1)
        return values


def apply(metric: Metric, predictions: Predictions, weights: np.ndarray) -> np.ndarray:
    """() or, per class, (K,) float64 value of a metric with a formula.

    Parameters
    ----------
    weights : (N,) number of times each sample counts.

    Raises
    ------
    PermafrostError : the formula fails on these predictions, or returns another shape.
    """
    expected = (len(predictions.classes),) if metric.per_class else ()
    problem = cause = None
    try:
        value = np.asarray(metric.formula(predictions, weights), np.float64)
        if value.shape != expected:
            problem = f"gives the shape {value.shape} in place of {expected}"
    except Exception as error:
        problem, cause = f"fails: {type(error).__name__}: {error}", error
    if problem is None:
        return value
    raise PermafrostError(
        f"on predictions of the task {predictions.task} ({type(predictions).__name__}) its formula {problem}",
        where=f"extra_metrics.{metric.name}",
        remedy=f"correct the formula, or leave {predictions.task} out of the metric's tasks",
    ) from cause
