"""Accuracy of a map: values, standard errors, intervals, and differences to another map at the same points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from permafrost.core.text import printable_name
from permafrost.evaluators.intervals.replicated import formed
from permafrost.evaluators.map_accuracy.design import SIMPLE, STRATIFIED, Design
from permafrost.evaluators.map_accuracy.measures import (
    DISAGREEMENTS,
    KAPPA,
    PLAIN,
    QUANTITY,
    SHIFT,
    Name,
    measures,
    slopes,
)
from permafrost.metrics.ratios import divide
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS, FEW_UNITS, ONE_UNIT
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile

HECTARE = 10_000.0
AREA = "area_ha"
_FORMS = {KAPPA: "signed"}
_KAPPA_REMARK = (
    "kappa is shown because older maps report it. It is discouraged: it adds nothing to overall accuracy, and its"
    " chance is not that of any map (Pontius and Millones, 2011; Olofsson et al., 2014)."
)


@dataclass(frozen=True)
class MapAccuracy:
    """Reference points of a map with their weights.

    Attributes
    ----------
    names : (K,) classes.
    reference, mapped : (n,) index of the class of every point.
    against : (n,) that of another map, or None.
    design : weights and strata.
    kind : one of `design.DESIGNS`.
    square_metres : the area that the points represent; None if it is not known.
    dropped : reason -> number of points that were left out.
    remarks : on how areas and points were read.
    """

    names: tuple[str, ...]
    reference: np.ndarray
    mapped: np.ndarray
    design: Design
    kind: str
    against: np.ndarray | None = None
    square_metres: float | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @cached_property
    def counts(self) -> np.ndarray:
        """(K, K) int64 points, rows the reference and columns the map."""
        size = len(self.names)
        return np.bincount(self._cells(self.mapped), minlength=size**2).reshape(size, size)

    @cached_property
    def shares(self) -> np.ndarray:
        """(K, K) estimated shares of the area, in the layout of `counts`; they sum to 1."""
        return self.design.shares(self._cells(self.mapped), len(self.names))

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every measure by metric and class, see `measures`; NaN if undefined."""
        return {name: float(value) for name, value in measures(self.shares, self.names).items()}

    @cached_property
    def standard_errors(self) -> dict[Name, float]:
        """Standard error of every measure; NaN if undefined, as where a stratum has a single point."""
        return self._errors(self.mapped)

    def rows(self, *, confidence: float = 0.95, resamples: int = 1000, seed: int = 0) -> list[dict]:
        """Value, standard error and interval of every measure, overall ones first.

        Intervals of ratios and areas are normal, as published: value ± z × standard error. Those of ``mean_f1``, the
        disagreements and kappa subtract the bias that resamples within strata show, as other intervals do
        (`intervals.replicated.Replicated.intervals`), so `resamples` 0 leaves them out; those of disagreements also
        hold the interval without this correction. That of a class's quantity disagreement is that of the difference of
        its two shares, cut at 0. The shift of a class has none: it is mostly 0, where it has no error.

        Returns
        -------
        Rows ``metric, class, value, standard_error, lower, upper, n_undefined, gates``; None if undefined. Without an
        observed error there are no bounds: it does not prove that there is none.
        """
        drawn = self._replicates(resamples, seed)
        rows = []
        for name, value in self.values.items():
            error = self.standard_errors[name]
            lower, upper, lost = self._bounds(name, value, error, drawn, confidence)
            cells = {"value": value, "standard_error": error, "lower": lower, "upper": upper}
            row = {
                "metric": name[0],
                "class": name[1],
                **{k: _defined(v) for k, v in cells.items()},
            }
            row |= {"n_undefined": lost, "gates": self._gate(name, value, error)}
            rows.append(row)
            if name[0] == "area_share" and self.square_metres is not None:
                rows.append(_scaled(row, AREA, self.square_metres / HECTARE))
        return sorted(rows, key=lambda row: row["class"] is not None)

    def differences(self, *, confidence: float = 0.95) -> list[dict]:
        """Measures of this map minus those of the other map at the same points, with the correlation of both.

        Rows ``metric, class, value, against, difference, lower, upper, p_value, n_undefined, resamples, gates``, the
        interval and the p-value from the normal distribution. Areas of the reference are the same for both, so they are
        left out, as are the disagreements of single classes.
        """
        size = len(self.names)
        cells = [self._cells(one) for one in (self.mapped, self.against)]
        both = [self.design.shares(one, size) for one in cells]
        values = [measures(one, self.names) for one in both]
        changes = [slopes(one, self.names) for one in both]
        rows = []
        for name in values[0]:
            if name[0] == "area_share" or (name[0] in DISAGREEMENTS and name[1] is not None):
                continue
            first, second = (float(each[name]) for each in values)
            moved = [
                self.design.influence(slope[name], share, own)
                for slope, share, own in zip(changes, both, cells, strict=True)
            ]
            error = self.design.error(moved[0] - moved[1])
            lower, upper, p_value = _tested(first - second, error, confidence)
            figures = {"value": first, "against": second, "difference": first - second}
            figures |= {"lower": lower, "upper": upper, "p_value": p_value}
            row = {
                "metric": name[0],
                "class": name[1],
                **{k: _defined(v) for k, v in figures.items()},
            }
            row |= {
                "n_undefined": 0,
                "resamples": None,
                "gates": self._gate(name, first - second, error),
            }
            rows.append(row)
        return sorted(rows, key=lambda row: row["class"] is not None)

    def mcnemar(self) -> dict | None:
        """McNemar's exact test of two maps on a simple random sample; None for other designs.

        Returns
        -------
        ``only_first``, ``only_second``: points that only one map has right; ``p_value``, two-sided, of the binomial
        distribution; 1 if both are 0.
        """
        if self.against is None or self.kind != SIMPLE or len(self.design.home) < len(self.mapped):
            return None
        from scipy.stats import binomtest

        right, other = self.mapped == self.reference, self.against == self.reference
        first, second = int(np.sum(right & ~other)), int(np.sum(other & ~right))
        p_value = float(binomtest(first, first + second).pvalue) if first + second else 1.0
        return {"only_first": first, "only_second": second, "p_value": p_value}

    def heading(self) -> str:
        """What was evaluated, in one line."""
        strata = f", {len(self.design.strata)} strata" * (len(self.design.strata) > 1)
        area = "" if self.square_metres is None else f" of {self.square_metres / HECTARE:,.1f} ha"
        return f"{len(self.mapped)} reference points{area}, {len(self.names)} classes; design {self.kind}{strata}"

    def notes(self) -> list[str]:
        """Remarks on points that were left out, on strata and on what is not estimated."""
        said = [f"{count} samples {reason}: left out." for reason, count in self.dropped.items()]
        said += self.remarks
        if single := self.design.single:
            named = ", ".join(printable_name(name) for name in single[:8])
            said.append(
                f"Strata with one sample: {named}. A variance within them is not defined, nor is the standard error of"
                " what depends on them."
            )
        if self.kind == STRATIFIED and self.design.column is not None:
            said.append(
                "The strata are the classes of the map: estimators of Olofsson et al. (2014)."
            )
        return [*said, _KAPPA_REMARK]

    def _cells(self, mapped: np.ndarray) -> np.ndarray:
        return self.reference * len(self.names) + mapped

    def _errors(self, mapped: np.ndarray) -> dict[Name, float]:
        cells = self._cells(mapped)
        shares = self.design.shares(cells, len(self.names))
        return {
            name: self.design.error(self.design.influence(slope, shares, cells), slope)
            for name, slope in slopes(shares, self.names).items()
        }

    def _replicates(self, resamples: int, seed: int) -> dict[Name, np.ndarray]:
        if not resamples:
            return {}
        size = len(self.names)
        drawn = self.design.resampled(self._cells(self.mapped), size, resamples, seed)
        return measures(drawn, self.names)

    def _bounds(self, name: Name, value: float, error: float, drawn: dict, confidence: float):
        """Lower bound, upper bound, number of undefined resamples."""
        nothing = math.nan, math.nan, 0
        if not error > 0 or math.isnan(value):
            return nothing
        half = normal_quantile(confidence) * error
        if name[0] in PLAIN:
            return value - half, value + half, 0
        if name[0] == QUANTITY and name[1] is not None:
            return max(value - half, 0.0), value + half, 0
        if not drawn or self.design.df < 1 or (name[0] == SHIFT and name[1] is not None):
            return nothing
        moved = drawn[name]
        kept = moved[~np.isnan(moved)]
        bias = float(kept.mean()) - value if kept.size else 0.0
        quantile = float(t_quantile(confidence, [float(self.design.df)])[0])
        form, wider = _FORMS.get(name[0], "wilson"), math.hypot(error, bias)
        ends = [formed(value - 2 * bias, wider, quantile, form)]
        if name[0] in DISAGREEMENTS:
            ends.append(formed(value, error, quantile, form))
        lower, upper = min(each[0] for each in ends), max(each[1] for each in ends)
        return lower, upper, int(len(moved) - kept.size)

    def _gate(self, name: Name, value: float, error: float) -> str:
        if math.isnan(value):
            return ""
        if math.isnan(error) and self.design.single:
            return f'{ONE_UNIT}: stratum "{self.design.single[0].replace(";", ",")}" has one sample'
        if name[1] is None or name[0] in DISAGREEMENTS:
            return ""
        place = self.names.index(name[1])
        axis, has = (0, "is mapped") if name[0] == "users_accuracy" else (1, "is true")
        count = int(self.counts.sum(axis=axis)[place])
        label = name[1].replace(";", ",")
        return (
            f'{FEW_UNITS}: class "{label}" {has} at {count} points' if count < ENOUGH_UNITS else ""
        )


def confusion_table(found: MapAccuracy):
    """One row per pair of classes: ``reference``, ``map``, ``points``, ``area_share`` and, if known, ``area_ha``."""
    import pyarrow as pa

    size = len(found.names)
    first, second = (places.ravel() for places in np.indices((size, size)))
    names = np.array(found.names, object)
    columns = {
        "reference": pa.array(names[first], pa.string()),
        "map": pa.array(names[second], pa.string()),
        "points": found.counts.ravel(),
        "area_share": found.shares.ravel(),
    }
    if found.square_metres is not None:
        columns[AREA] = found.shares.ravel() * found.square_metres / HECTARE
    return pa.table(columns)


def error_table(rows: list[dict]):
    """The rows of `MapAccuracy.rows` with their standard errors, as an Arrow table."""
    import pyarrow as pa

    texts = ("metric", "class", "gates")
    numbers = ("value", "standard_error", "lower", "upper")
    kinds = dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.float64())
    order = ("metric", "class", *numbers, "gates")
    return pa.table({name: pa.array([row[name] for row in rows], kinds[name]) for name in order})


def _tested(difference: float, error: float, confidence: float) -> tuple[float, float, float]:
    """Lower bound, upper bound and p-value of a difference."""
    if not error > 0:
        return math.nan, math.nan, math.nan
    half = normal_quantile(confidence) * error
    p_value = math.erfc(abs(float(divide(difference, error))) / math.sqrt(2))
    return difference - half, difference + half, p_value


def _scaled(row: dict, metric: str, factor: float) -> dict:
    cells = ("value", "standard_error", "lower", "upper")
    return {
        **row,
        "metric": metric,
        **{name: None if row[name] is None else row[name] * factor for name in cells},
    }


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
