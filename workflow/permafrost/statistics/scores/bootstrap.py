"""Intervals for every metric of a test set, by resampling its independent units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.resampling.intervals import (
    basic_interval,
    basic_square_interval,
    bca_interval,
    check_method,
    constant_difference_interval,
    expanded,
    log_interval,
    percentile_interval,
    reflected_square,
    wilson_interval,
)
from permafrost.statistics.resampling.jackknife import PARTS, Spread, part_sizes, spread_of, strays
from permafrost.statistics.resampling.resamples import (
    check_resamples,
    iter_jackknife,
    iter_resamples,
)
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile
from permafrost.statistics.resampling.units import Units, find_units


def bootstrap_scores(
    predictions: Predictions,
    *,
    resamples: int = 200,
    confidence: float = 0.95,
    seed: int,
    method: str = "auto",
    calibration: dict | None = None,
) -> list[dict]:
    """Value and interval of every metric of a task.

    Parameters
    ----------
    predictions : of one backbone on a test set; units are its groups where known, else its images.
    seed : shared by all backbones of a dataset, so that they are scored on the same resamples.
    method : ``auto`` takes for each metric what covers in simulation (`docs/intervals.md`), from the
        standard error of `jackknife`: ``wilson`` for metrics in [0, 1], ``jackknife_log`` for positive
        ones, ``jackknife_t`` for R², for what is read from curves (cut to [0, 1], less the bias that
        resamples show, see `carriers.Replicated.intervals`) and for differences; and ``basic_square`` from
        resamples for those ``of_gaps`` (`intervals.reflected_square`). ``percentile`` and ``bca`` are the bootstrap's
        (an interval per metric that has no BCa falls back to percentile, and its row's ``method`` says so);
        with them, metrics ``of_curves`` have ``basic`` intervals (`intervals.reflected`).
    calibration : options of `calibration.Calibration`, for predictions with probabilities; None
        leaves its metrics out, and changes nothing in the rows of the others.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, confidence, method, resamples,
    n_undefined, unit, n_units, n_test, primary, higher_is_better (None where neither more nor
    less is), bootstrap_seed``; those of `calibration` have ``flags`` too, what limits this one metric.
    The value is that of the whole test set. ``resamples`` is the number of resamples that the interval
    comes from: of draws, or of parts that were left out in turn. Those on which a metric is undefined
    (such as the recall of a class that was not drawn) do not enter it and are counted in ``n_undefined``.
    The primary row has ``strays`` too, a list of those of `jackknife.strays`; None with one unit or an undefined value.
    """
    check_method(method, confidence)
    check_resamples(resamples)
    # evaluating comes first: it checks the arrays
    values = predictions.evaluate()
    units = find_units(
        len(predictions), sample_ids=predictions.sample_ids, groups=predictions.groups
    )
    family = predictions.family(units.index)
    judged = None
    if calibration is not None:
        from permafrost.statistics.predictions.calibration import Joined, calibration_of

        judged = calibration_of(predictions, units.index, calibration)
        values, family = {**values, **judged.values}, Joined(family, judged)
    how = _How(method, resamples, confidence, seed, getattr(predictions, "is_difference", False))
    interval = _Intervals.of(family, values, units, how)
    common = {
        "confidence": confidence,
        "unit": units.kind,
        "n_units": units.count,
        "n_test": len(predictions),
        "bootstrap_seed": seed,
    }
    rows, primary = [], primary_metric(predictions.task)
    for metric, value in values.items():
        for column, name in _columns(value, predictions.classes):
            row = {"metric": metric, "class": name, **interval.row(metric, column), **common}
            row["primary"] = metric == primary
            row["higher_is_better"] = metric_of(metric).higher_is_better
            if row["primary"]:
                row["strays"] = interval.strays(metric)
            if judged is not None and (flags := judged.flags(metric)):
                row["flags"] = flags
            rows.append(row)
    return rows


def gather(family, blocks, metrics=None) -> dict[str, np.ndarray]:
    """Replicates on blocks of resamples, joined; see the families."""
    parts = [family.replicates(resamples, metrics) for resamples in blocks]
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _mean_of_defined(drawn: np.ndarray) -> np.ndarray:
    """(…) mean of (…, B) replicates that are defined; NaN where none is."""
    defined = ~np.isnan(drawn)
    total, count = np.where(defined, drawn, 0.0).sum(axis=-1), defined.sum(axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _columns(value, classes):
    if np.ndim(value) == 0:
        return [(None, None)]
    return list(enumerate(classes))


@dataclass(frozen=True)
class _How:
    """How intervals are made; see `bootstrap_scores`.

    Attributes
    ----------
    differences : whether the values are differences of two settings.
    """

    method: str
    resamples: int
    confidence: float
    seed: object
    differences: bool


@dataclass(frozen=True)
class _Intervals:
    """Intervals of all metrics of one test set.

    Attributes
    ----------
    replicates : metric to (…, B) on resamples that were drawn, of the metrics whose intervals need them.
    left_out : metric to (…, J) without each part, of those whose intervals need them.
    spreads : of `left_out`, where the method is ``auto``.
    biases : metric to how far resamples move what is read from curves, where the method is ``auto``.
    supports : number of units that each of these metrics rests on.
    quantiles : metric to those of Student's t for its spread, and for its support.
    """

    how: _How
    values: dict
    units: Units
    family: object
    replicates: dict[str, np.ndarray]
    left_out: dict[str, np.ndarray]
    spreads: dict[str, Spread]
    biases: dict[str, np.ndarray]
    supports: dict[str, np.ndarray]
    quantiles: dict[str, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, family, values: dict, units: Units, how: _How) -> _Intervals:
        automatic = how.method == "auto"
        gaps = {name for name in values if metric_of(name).of_gaps}
        curves = {name for name in values if metric_of(name).of_curves}
        drawn = gaps if automatic else set(values)
        others = set(values) - gaps if automatic else set(values) - curves - gaps
        replicates: dict = {}
        if drawn:
            replicates = gather(family, iter_resamples(units.count, how.resamples, how.seed), drawn)
        left_out: dict = {}
        if (automatic and units.count > 1) or how.method == "bca":
            parts = iter_jackknife(units.count, PARTS if automatic else None)
            left_out = gather(family, parts, others)
        spreads, supports, biases = {}, {}, {}
        if automatic and units.count > 1 and not how.differences and set(left_out) & curves:
            blocks = iter_resamples(units.count, how.resamples, how.seed)
            moved = gather(family, blocks, set(left_out) & curves)
            biases = {name: _mean_of_defined(moved[name]) - values[name] for name in moved}
        if automatic:
            sizes = part_sizes(units)
            spreads = {
                name: spread_of(values[name], each, sizes, centred=name in biases)
                for name, each in left_out.items()
            }
            supports = {name: _support(family, name, spreads[name], units) for name in spreads}
        return cls(
            how,
            values,
            units,
            family,
            replicates,
            left_out,
            spreads,
            biases,
            supports,
            _quantiles(spreads, supports, how.confidence),
        )

    def row(self, metric: str, column: int | None) -> dict:
        """``value, lower, upper, method, resamples, n_undefined`` of a metric, or of its class `column`."""
        pick = ... if column is None else column
        value = float(np.asarray(self.values[metric])[pick])
        if metric in self.replicates:
            seen = self.replicates[metric][pick]
            (lower, upper), method = self._drawn(metric, value, seen, pick)
        elif self.units.count == 1:
            # a point, which the gate `one_unit` marks
            seen = np.array([value])
            lower, upper, method = value, value, self._form(metric)
        else:
            seen = self.left_out[metric][pick]
            method = self._form(metric)
            lower, upper = (
                (np.nan, np.nan) if np.isnan(value) else self._jackknife(metric, value, pick)
            )
        return {
            "value": value,
            "lower": float(lower),
            "upper": float(upper),
            "method": method,
            "resamples": len(seen),
            "n_undefined": int(np.count_nonzero(np.isnan(seen))),
        }

    def strays(self, metric: str) -> list[float] | None:
        """What J parts of the test set add to an overall metric (`jackknife.strays`); None where unknown."""
        if self.units.count == 1 or np.isnan(self.values[metric]):
            return None
        left_out = self.left_out.get(metric) if self.how.method == "auto" else None
        if left_out is None:
            left_out = gather(self.family, iter_jackknife(self.units.count, PARTS), {metric})[
                metric
            ]
        return strays(self.values[metric], left_out, part_sizes(self.units)).tolist()

    def _drawn(self, metric: str, value: float, drawn: np.ndarray, pick):
        """The interval from replicates, and its name."""
        if metric_of(metric).of_gaps:
            if self.how.method == "auto":
                return self._expanded_square(value, drawn), "basic_square"
            return basic_square_interval(value, drawn, self.how.confidence), "basic_square"
        if metric_of(metric).of_curves:
            return basic_interval(value, drawn, self.how.confidence), "basic"
        if self.how.method == "bca":
            left_out = self.left_out[metric][pick]
            interval = bca_interval(value, drawn, left_out, self.how.confidence)
            if interval is not None:
                return interval, "bca"
        return percentile_interval(drawn, self.how.confidence), "percentile"

    def _expanded_square(self, value: float, drawn: np.ndarray) -> tuple[float, float]:
        mirrored = reflected_square(value, drawn)
        lower, upper = percentile_interval(
            expanded(mirrored, self.units.count, self.how.confidence), self.how.confidence
        )
        return max(lower, 0.0), min(upper, 1.0)

    def _form(self, metric: str) -> str:
        known = metric_of(metric)
        if self.how.differences or known.bounds == "below_one" or known.of_curves:
            return "jackknife_t"
        return "jackknife_log" if known.bounds == "positive" else "wilson"

    def _jackknife(self, metric: str, value: float, pick) -> tuple[float, float]:
        spread, form = self.spreads[metric], self._form(metric)
        error = float(spread.error[pick])
        quantile, few = (float(each[pick]) for each in self.quantiles[metric])
        if form == "jackknife_log":
            return log_interval(value, error, quantile)
        if self.how.differences:
            if error == 0:
                return constant_difference_interval(value, self.units.count, self.how.confidence)
            return value - quantile * error, value + quantile * error
        if form == "jackknife_t" and error > 0:
            lowest, centre = -np.inf if metric_of(metric).bounds == "below_one" else 0.0, value
            if metric in self.biases:
                # see `carriers.Replicated.intervals`
                bias = float(self.biases[metric][pick])
                centre, error = value - 2 * bias, math.hypot(error, bias)
            return max(centre - quantile * error, lowest), min(centre + quantile * error, 1.0)
        support = float(self.supports[metric][pick])
        if self.units.kind == "image" and metric in getattr(self.family, "proportions", ()):
            return wilson_interval(value, support, normal_quantile(self.how.confidence))
        centre = value
        if metric_of(metric).biased and 0 < value - float(spread.bias[pick]) < 1:
            centre -= float(spread.bias[pick])
        if error == 0 or not 0 < centre < 1:
            # all units are alike, which is known of those alone that the metric rests on
            return wilson_interval(min(max(value, 0.0), 1.0), support, few)
        return wilson_interval(centre, centre * (1 - centre) / error**2, quantile)


def _support(family, metric: str, spread: Spread, units: Units) -> np.ndarray:
    """Number of units that a metric rests on, at least 1; all of them where the family does not know."""
    known = family.support(metric) if hasattr(family, "support") else units.count
    return np.maximum(np.broadcast_to(np.float64(known), spread.error.shape), 1.0)


def _quantiles(spreads: dict, supports: dict, confidence: float) -> dict:
    """Those of Student's t for every metric, all at once."""
    degrees = [
        each for name in spreads for each in (spreads[name].df, np.maximum(supports[name] - 1, 1))
    ]
    if not degrees:
        return {}
    quantiles = t_quantile(confidence, np.concatenate([np.ravel(each) for each in degrees]))
    ends = np.cumsum([each.size for each in degrees])[:-1]
    parts = [
        part.reshape(each.shape)
        for part, each in zip(np.split(quantiles, ends), degrees, strict=True)
    ]
    return dict(zip(spreads, zip(parts[::2], parts[1::2], strict=True), strict=True))
