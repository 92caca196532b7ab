"""Intervals for every metric of a test set, by resampling its independent units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.options import Bootstrap
from permafrost.statistics.predictions.calibration import Joined, calibration_of
from permafrost.statistics.predictions.formulas import evaluated, family_of
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.predictions.sets import sets_of
from permafrost.statistics.resampling.carriers import (
    Carriers,
    carriers_of_metrics,
    quantiles_of,
)
from permafrost.statistics.resampling.intervals import (
    basic_interval,
    basic_square_interval,
    bca_interval,
    check_method,
    constant_difference_interval,
    constant_interval,
    expanded,
    interval_of_mean,
    log_interval,
    percentile_interval,
    reflected_square,
    share_interval,
    skewed_interval,
    wilson_interval,
)
from permafrost.statistics.resampling.jackknife import PARTS, Spread, part_sizes, spread_of, strays
from permafrost.statistics.resampling.resamples import (
    check_resamples,
    iter_jackknife,
    iter_resamples,
)
from permafrost.statistics.resampling.runs import over_runs
from permafrost.statistics.resampling.student_t import normal_quantile
from permafrost.statistics.resampling.units import Units, find_units
from permafrost.statistics.scores.gates import EQUAL, heavy_tail

# bounds of a metric -> form of its interval; else on the logarithm
_FORMS = {"unit": "wilson", "any": "jackknife_t"}


def bootstrap_scores(
    predictions: Predictions,
    *,
    resamples: int = Bootstrap.resamples,
    confidence: float = Bootstrap.confidence,
    seed: int,
    method: str = Bootstrap.method,
    calibration: dict | None = None,
) -> list[dict]:
    """Value and interval of every metric of a task.

    Parameters
    ----------
    predictions : of one backbone on a test set; units are its groups if known, else its images. The
        error of a mean over draws of the training set includes draws and items (`runs`).
    seed : the same for all backbones of a dataset, so that they are scored on the same resamples.
    method : ``auto`` takes for each metric the method with the right coverage in simulation
        (`docs/intervals.md`). With the standard error of `jackknife`: ``wilson`` for metrics in [0,
        1], ``jackknife_log`` for positive ones and 1 - R², ``jackknife_t`` for the mean error of
        counts and for values from curves (these truncated to [0, 1], minus the bias estimated from resamples, see
        `replicated.Replicated.intervals`) and for differences. From resamples: ``basic_square`` for
        metrics ``of_gaps`` (`intervals.reflected_square`), and `expanded` ``percentile`` for
        metrics ``of_quantiles``. ``percentile`` and ``bca`` are bootstrap intervals (a metric
        without a BCa interval falls back to percentile, named in the row's ``method``); with them,
        metrics ``of_curves`` have ``basic`` intervals (`intervals.reflected`).
    calibration : options of `calibration.Calibration` and `sets.Sets`, for predictions with
        probabilities; None omits their metrics, without an effect on other rows.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, confidence, method, resamples,
    n_undefined, unit, n_units, n_test, primary, higher_is_better (None if neither direction is
    better), bootstrap_seed``; ``flags`` are warnings about this metric.
    The value is that of the whole test set. ``resamples`` is the number of resamples behind the
    interval: draws, or jackknife blocks. Resamples on which a metric is undefined (such as the
    recall of a class that was not drawn) are excluded and counted in ``n_undefined``.
    ``n_carriers`` units carry the value: those that hold the class; for a mean over classes, the
    equivalent number of units of a single class (`carriers.Carriers.effective`); else all.
    ``largest_share`` is the largest squared jackknife effect of a block as a share of their sum;
    None without a jackknife. If a class has too few carriers, ``flags`` has a warning. If a single
    unit carries the value, the interval is the metric's range, and NaN if that is unbounded.
    The primary row also has ``strays``, the list of centred contributions (`jackknife.strays`);
    None with one unit or an undefined value.
    """
    check_method(method, confidence)
    check_resamples(resamples)
    # evaluate first: it checks the arrays
    values = evaluated(predictions)
    units = find_units(
        len(predictions), sample_ids=predictions.sample_ids, groups=predictions.groups
    )
    family = family_of(predictions, units.index)
    owners: dict = {}
    if calibration is not None:
        judged: list = [calibration_of(predictions, units.index, calibration)]
        judged += sets_of(predictions, units, calibration)
        for one in judged:
            values |= (own := one.values)
            owners |= dict.fromkeys(own, one)
        family = Joined(family, *judged)
    how = _How(
        method,
        resamples,
        confidence,
        seed,
        getattr(predictions, "largest_difference", 0.0),
        getattr(predictions, "ratio_interval", None),
    )
    inner: dict[str, np.ndarray] = getattr(predictions, "class_values", dict)()
    interval = _Intervals.of(family, values | inner, predictions.classes, units, how)
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
            flags = interval.gates(metric, column)
            if owner := owners.get(metric):
                row |= owner.widened(row) if how.method == "auto" else {}
                flags = flags + owner.flags(metric)
            row["flags"] = flags
            rows.append(row)
    return rows


def gather(family, blocks, metrics=None) -> dict[str, np.ndarray]:
    """Replicates on blocks of resamples, concatenated; see the families."""
    parts = [family.replicates(resamples, metrics) for resamples in blocks]
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def _mean_of_defined(drawn: np.ndarray) -> np.ndarray:
    """(…) mean of the defined (…, B) replicates; NaN if none is."""
    defined = ~np.isnan(drawn)
    total, count = np.where(defined, drawn, 0.0).sum(axis=-1), defined.sum(axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _columns(value, classes):
    if np.ndim(value) == 0:
        return [(None, None)]
    return list(enumerate(classes))


@dataclass(frozen=True)
class _How:
    """Settings of intervals; see `bootstrap_scores`.

    Attributes
    ----------
    differences : of differences of two settings, the largest possible one of metrics in [0, 1]; else 0.
    of_ratio : of ratios of two settings, gives the interval for units, a quantile of Student's t, and a confidence.
    """

    method: str
    resamples: int
    confidence: float
    seed: object
    differences: float
    of_ratio: Callable[[Units, float, float], tuple[float, float]] | None = None


@dataclass(frozen=True)
class _Intervals:
    """Intervals of all metrics of one test set.

    Attributes
    ----------
    replicates : metric to (…, B) on drawn resamples, for metrics whose intervals need them.
    left_out : metric to (…, J) without each block, for metrics whose intervals need it.
    spreads : of `left_out`, if the method is ``auto``.
    biases : metric to the bias on resamples of values from curves, if the method is ``auto``.
    carriers : metric to the units that carry it, or each of its classes.
    quantiles : metric to quantiles of Student's t for its spread, and for the number of its
        carriers.
    """

    how: _How
    values: dict
    units: Units
    family: object
    replicates: dict[str, np.ndarray]
    left_out: dict[str, np.ndarray]
    spreads: dict[str, Spread]
    biases: dict[str, np.ndarray]
    carriers: dict[str, list[Carriers]]
    quantiles: dict[str, tuple[np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, family, values: dict, classes, units: Units, how: _How) -> _Intervals:
        automatic = how.method == "auto"
        gaps = {name for name in values if metric_of(name).of_gaps or metric_of(name).of_quantiles}
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
        spreads, biases = {}, {}
        carriers = carriers_of_metrics(family, values, classes, units)
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
            for name in set(spreads) & set(getattr(family, "draws", ())):
                each = [
                    gather(one, iter_jackknife(units.count, PARTS), {name})
                    for one in family.families
                ]
                without = np.stack([one[name] for one in each])
                over = over_runs(family.draws[name], without, sizes, centred=name in biases)
                spreads[name] = over.spread
        return cls(
            how,
            values,
            units,
            family,
            replicates,
            left_out,
            spreads,
            biases,
            carriers,
            quantiles_of(spreads, carriers, how.confidence),
        )

    def row(self, metric: str, column: int | None) -> dict:
        """``value, lower, upper, method, resamples, n_undefined`` of a metric or class `column`."""
        pick = ... if column is None else column
        value = float(np.asarray(self.values[metric])[pick])
        if metric in self.replicates:
            seen = self.replicates[metric][pick]
            (lower, upper), method = self._drawn(metric, value, seen, pick)
        elif self.units.count == 1:
            seen, method = np.array([value]), self._form(metric)
            lower, upper = self._anything(metric, value)
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
            **self._carried(metric, column),
        }

    def gates(self, metric: str, column: int | None) -> list[str]:
        """Warnings about few carriers of a metric, or of its class `column`; `gates` covers the
        whole test set."""
        pick = ... if column is None else column
        if np.isnan(np.asarray(self.values[metric])[pick]):
            return []
        own, spread = self.carriers[metric][column or 0], self.spreads.get(metric)
        found = [own.gate] if own.gate and not own.of_all else []
        share = self._form(metric) == "wilson" and not self._binomial(metric)
        if not found and spread is not None and share:
            found = [own.deciding_gate(float(spread.deciding[pick]))]
        if hasattr(self.family, "largest_share") and not self.how.differences:
            found += heavy_tail(self.family.largest_share(metric), self.units.count)
        sized = metric_of(metric).bounds in ("positive", "any")
        if sized and spread is not None and spread.error[pick] == 0:
            found.append(EQUAL)
        return [gate for gate in found if gate]

    def _binomial(self, metric: str) -> bool:
        return self.units.kind == "image" and metric in getattr(self.family, "proportions", ())

    def _carried(self, metric: str, column: int | None) -> dict:
        """``n_carriers, largest_share``; see `bootstrap_scores`."""
        pick = ... if column is None else column
        own, spread = self.carriers[metric][column or 0], self.spreads.get(metric)
        share = math.nan if spread is None else float(spread.largest_share[pick])
        if hasattr(self.family, "largest_share"):
            share = self.family.largest_share(metric)
        return {"n_carriers": own.number, "largest_share": None if math.isnan(share) else share}

    def _anything(self, metric: str, value: float) -> tuple[float, float]:
        """The interval of a value carried by a single unit: its whole range."""
        if math.isnan(value) or metric_of(metric).bounds != "unit":
            return math.nan, math.nan
        return -self.how.differences, 1.0

    def strays(self, metric: str) -> list[float] | None:
        """Centred contributions of J blocks to a metric (`jackknife.strays`); None if unknown."""
        if self.units.count == 1 or np.isnan(self.values[metric]):
            return None
        left_out = self.left_out.get(metric) if self.how.method == "auto" else None
        if left_out is None:
            left_out = gather(self.family, iter_jackknife(self.units.count, PARTS), {metric})[
                metric
            ]
        if np.isnan(left_out).any():
            return None
        return strays(self.values[metric], left_out, part_sizes(self.units)).tolist()

    def _drawn(self, metric: str, value: float, drawn: np.ndarray, pick):
        """The interval from replicates, and the name of the method."""
        if metric_of(metric).of_quantiles and self.how.method == "auto":
            drawn = expanded(drawn, self.units.count, self.how.confidence)
            lower, upper = percentile_interval(drawn, self.how.confidence)
            lowest = -np.inf if self.how.differences else 0.0
            return (max(lower, lowest), upper), "percentile"
        if metric_of(metric).of_gaps:
            if self.how.method == "auto":
                return self._expanded_square(value, drawn), "basic_square"
            return basic_square_interval(value, drawn, self.how.confidence), "basic_square"
        if metric_of(metric).of_curves:
            return basic_interval(value, drawn, self.how.confidence), "basic"
        if self.how.method == "bca" and metric in self.left_out:
            left_out = self.left_out[metric][pick]
            interval = bca_interval(value, drawn, left_out, self.how.confidence)
            if interval is not None:
                return interval, "bca"
        return percentile_interval(drawn, self.how.confidence), "percentile"

    def _expanded_square(self, value: float, drawn: np.ndarray) -> tuple[float, float]:
        confidence = self.how.confidence
        if np.isnan(drawn).all():
            return np.nan, np.nan
        mirrored, plain = (
            expanded(each, self.units.count, confidence)
            for each in (reflected_square(value, drawn), drawn)
        )
        lower, upper = percentile_interval(mirrored, confidence)
        # squares overcorrect if gaps of few bins dominate: at least value ± t × error
        half = normal_quantile(confidence) * float(np.nanstd(plain))
        return max(min(lower, value - half), 0.0), min(max(upper, value + half), 1.0)

    def _form(self, metric: str) -> str:
        known = metric_of(metric)
        if self.how.differences or known.of_curves:
            return "jackknife_t"
        return _FORMS.get(known.bounds, "jackknife_log")

    def _jackknife(self, metric: str, value: float, pick) -> tuple[float, float]:
        spread, form = self.spreads[metric], self._form(metric)
        error, own = float(spread.error[pick]), self.carriers[metric][0 if pick is ... else pick]
        if metric_of(metric).least_of:
            return self._of_least(metric_of(metric).least_of)
        if self._binomial(metric):
            return share_interval(value, round(own.support), self.how.confidence)
        if own.alone or math.isinf(error):
            return self._anything(metric, value)
        quantile, few = (float(each[pick]) for each in self.quantiles[metric])
        below_one = metric_of(metric).bounds == "below_one"
        size = 1 - value if below_one else value
        if form == "jackknife_log" and not (below_one and size == 0):
            lower, upper = log_interval(size, error, quantile)
            if error == 0:
                lower, upper = constant_interval(size, self.units.count, self.how.confidence)
            return (1 - upper, 1 - lower) if below_one else (lower, upper)
        if self.how.of_ratio is not None:
            return self.how.of_ratio(self.units, quantile, self.how.confidence)
        if self.how.differences:
            if error == 0:
                bound = self.how.differences * (metric_of(metric).bounds == "unit")
                return constant_difference_interval(
                    value, self.units.count, self.how.confidence, bound=bound
                )
            return value - quantile * error, value + quantile * error
        if metric_of(metric).bounds == "any":
            half = quantile * error
            return (
                (value - half, value + half)
                if error > 0
                else constant_difference_interval(
                    value, self.units.count, self.how.confidence, bound=0.0
                )
            )
        if form == "jackknife_t" and error > 0:
            centre = value
            if metric in self.biases:
                # see `replicated.Replicated.intervals`
                bias = float(self.biases[metric][pick])
                centre, error = value - 2 * bias, math.hypot(error, bias)
            return max(centre - quantile * error, 0.0), min(centre + quantile * error, 1.0)
        centre = value
        if metric_of(metric).biased and 0 < value - float(spread.bias[pick]) < 1:
            centre -= float(spread.bias[pick])
        if error == 0 or not 0 < centre < 1:
            # all units have the same value, which is known only for the units that carry the metric
            return wilson_interval(min(max(value, 0.0), 1.0), own.support, few)
        lower, upper = wilson_interval(centre, centre * (1 - centre) / error**2, quantile)
        skew = skewed_interval(centre, error, float(spread.slope[pick]), quantile)
        ends = [(lower, upper), skew, *self._of_classes(metric, value)]
        return max(0.0, min(each[0] for each in ends)), min(1.0, max(each[1] for each in ends))

    def _of_least(self, each: str) -> tuple[float, float]:
        """The interval of the least value of the metric `each` per class: the least bounds of intervals that hold
        for all K classes together, each with a K-th of the error rate (Bonferroni)."""
        known = np.flatnonzero(~np.isnan(self.values[each]))
        confidence = 1 - (1 - self.how.confidence) / len(known)
        quantiles = quantiles_of({each: self.spreads[each]}, self.carriers, confidence)
        how = replace(self.how, confidence=confidence)
        strict = replace(self, how=how, quantiles=quantiles)
        ends = [strict._jackknife(each, float(self.values[each][one]), int(one)) for one in known]
        lower, upper = np.min(ends, axis=0).tolist()
        return lower, upper

    def _of_classes(self, metric: str, value: float) -> list[tuple[float, float]]:
        """From the intervals of the classes that `metric` averages; empty if it averages none."""
        each = metric_of(metric).mean_of
        if each not in self.spreads:
            return []
        known = np.flatnonzero(~np.isnan(self.values[each]))
        values, left_out = self.values[each][known], self.left_out[each][known]
        ends = np.array(
            [
                self._jackknife(each, float(one), int(place))
                for one, place in zip(values, known, strict=True)
            ]
        )
        return [interval_of_mean(values, ends, values[:, None] - left_out)]
