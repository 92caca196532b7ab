"""Scores on the slices of a test set, which of them are worse than the rest, and how far they differ.

The lowest of many scores is low by chance alone. Three statements allow for that:

- A slice is worse than the rest if its score is low among those that it would have under random
  labels. Labels are permuted among the independent units. A unit with samples of several slices
  keeps its parts: its labels are permuted among them, and exchanged with those of units that have
  as many. One-sided p-values are adjusted for the number of slices (step-down min-P), so that with
  no true difference some slice is called worse in at most 5 % of test sets.
- Bounds at the confidence 1 - (1 - c) / S of each of S slices contain all their true scores
  together with probability c or more (Bonferroni), so also that of the lowest.
- The spread is the standard deviation over slices, less the sampling error::

      tau^2 = max(0, s^2 - v)      s^2: variance of the S scores, v: its expectation by sampling alone

  With independent slices v is their mean squared error; with units that several slices share it is
  the jackknife variance of the deviations from their mean. This is the moment estimator of the
  variance between studies with equal weights; unlike weights of the inverse variance, it does not
  favour slices whose errors happen to be small, such as those without a wrong answer.

Source: Westfall and Young, Resampling-Based Multiple Testing (1993), for min-P; DerSimonian and
Kacker, Random-Effects Model for Meta-Analysis of Clinical Trials: An Update (2007), equation 8
("Cochran ANOVA"), for the spread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.options import Bootstrap, Comparison
from permafrost.statistics.predictions.columns import need_columns, sorted_rows
from permafrost.statistics.predictions.formulas import evaluated, family_of
from permafrost.statistics.predictions.reading import Predictions, predictions_from_table
from permafrost.statistics.resampling.carriers import ENOUGH_UNITS
from permafrost.statistics.resampling.jackknife import PARTS
from permafrost.statistics.resampling.p_values import step_down_max_t
from permafrost.statistics.resampling.resamples import BLOCK_BYTES, Resamples
from permafrost.statistics.resampling.units import Units, find_units
from permafrost.statistics.scores.bootstrap import bootstrap_scores
from permafrost.statistics.slices.labels import Labels

# the name of an image whose name was taken
_REPEATED = re.compile(r"(.*), \d+", re.DOTALL)
# scores that differ by less, relative to the largest, are equal but for rounding
_DIGITS = 10
# with fewer permutations no slice could be significant at 5 %, or only just
_PER_SLICE = 40
# the test takes the cube of their number
MOST_TESTED = 200


@dataclass(frozen=True)
class Slice:
    """A slice and its score.

    Attributes
    ----------
    slice : its name.
    value, lower, upper : the metric on its samples, with the interval of `bootstrap_scores`; NaN if
        it is undefined, or the interval was not asked for.
    n_test, n_units : its samples and independent units.
    rest : the metric on all other samples whose slice is known.
    judged : whether it has enough units, and a value.
    p_adjusted : of "worse than the rest", adjusted for all judged slices; NaN without a test.
    gates : warnings about its value.
    """

    slice: str
    value: float
    lower: float
    upper: float
    n_test: int
    n_units: int
    rest: float
    judged: bool
    p_adjusted: float
    gates: list[str]


@dataclass(frozen=True)
class Sliced:
    """Scores of all slices of a test set.

    Attributes
    ----------
    unit : ``group`` or ``image``, the independent unit; least : how many a judged slice has.
    n_unknown : samples whose slice is not known; they are in no score here.
    spread : standard deviation of the true scores of the judged slices, estimated; NaN for less
        than two.
    worst : the judged slice with the worst value, the first of equal ones; None without any.
    bounds : of the worst slice's true score, with confidence for all judged slices together; NaN
        without intervals.
    gap : difference of the best and the worst judged slice; gap_by_chance : its median with
        permuted labels. NaN for less than two, and without permutations.
    """

    metric: str
    confidence: float
    unit: str
    least: int
    slices: list[Slice]
    n_unknown: int
    worst: Slice | None
    bounds: tuple[float, float]
    spread: float
    gap: float
    gap_by_chance: float

    @property
    def judged(self) -> list[Slice]:
        return [one for one in self.slices if one.judged]

    @property
    def worse(self) -> list[Slice]:
        """The slices that are significantly worse than the rest."""
        return [one for one in self.judged if one.p_adjusted <= 1 - self.confidence]


def score_slices(
    table: pa.Table,
    metadata: dict,
    labels: Labels,
    *,
    metric: str | None = None,
    of_groups: bool = False,
    least: int = ENOUGH_UNITS,
    confidence: float = Bootstrap.confidence,
    intervals: bool = True,
    resamples: int = Bootstrap.resamples,
    permutations: int = Comparison.resamples,
    seed: int = 0,
) -> Sliced:
    """The scores of all slices.

    Parameters
    ----------
    table, metadata : of predictions, as `core.tables.read_table` returns them.
    labels : of the table's rows.
    metric : with one number per test set; the primary one by default.
    of_groups : whether a slice is one group. It has a single independent unit, so its images are
        the units instead: the statement is about the images of this group. Answers to one image in
        several repetitions of folds, which are called "x", "x, 2", "x, 3", are one unit.
    least : slices with fewer units are not judged.
    intervals : whether slices get intervals, which take most of the time.
    resamples : for intervals of metrics that need them.
    permutations : of the labels, for p-values and `Sliced.gap_by_chance`; 0: none of these. At
        least 40 per judged slice, since the smallest adjusted p-value of S slices is about S / B.
        More than `MOST_TESTED` judged slices are not tested.

    Raises
    ------
    PermafrostError : all samples are of one slice; an unknown metric, or one without a better
        direction; a damaged table.
    """
    metric = primary_metric(metadata["task"]) if metric is None else metric
    need_columns(table, ("sample_id",))
    if of_groups:
        table = _of_images(table)
    # predictions are sorted by sample id: so are the labels
    order = sorted_rows(table["sample_id"].to_pylist(), None)[0]
    rows = order[labels.codes[order] >= 0]
    table, codes = table.take(rows), labels.codes[rows]
    if len(labels.names) < 2:
        raise PermafrostError(
            f"all test samples are of one slice: {', '.join(labels.names)}",
            where=f"slices of {metadata.get('dataset', 'a test set')}",
            remedy="slice by something else, or by smaller steps",
        )
    parts = _Parts.of(predictions_from_table(table, metadata), codes, len(labels.names), metric)
    count = np.bincount(codes, minlength=len(labels.names))
    own = parts.cell_slice[:, None] == np.arange(len(labels.names))
    values, rests = parts.scores(own), parts.scores(~own)
    units = own.sum(axis=0)
    judged = np.flatnonzero((units >= least) & ~np.isnan(values))
    p_adjusted, by_chance = parts.tested(values, judged, permutations, seed)
    interval = _Intervals(table, metadata, metric, codes, {"resamples": resamples, "seed": seed})
    slices = []
    for place, name in enumerate(labels.names):
        known = intervals and not math.isnan(values[place])
        row = interval.of(place, confidence) if known else _UNDEFINED
        slices.append(
            Slice(
                name,
                float(values[place]),
                row["lower"],
                row["upper"],
                int(count[place]),
                int(units[place]),
                float(rests[place]),
                place in judged,
                float(p_adjusted[place]),
                row["flags"],
            )
        )
    gap, worst, bounds = math.nan, None, _UNDEFINED
    if len(judged):
        gap = float(np.ptp(values[judged])) if len(judged) > 1 else math.nan
        lowest = judged[np.argmax(parts.badness(values[judged]))]
        worst = slices[lowest]
        if intervals:
            bounds = interval.of(lowest, 1 - (1 - confidence) / len(judged))
    return Sliced(
        metric,
        confidence,
        "image" if of_groups else parts.units.kind,
        least,
        slices,
        len(labels.codes) - len(rows),
        worst,
        (bounds["lower"], bounds["upper"]),
        parts.spread(values, judged),
        gap,
        by_chance,
    )


def _of_images(table: pa.Table) -> pa.Table:
    """A table whose units are images, which have several rows if folds are repeated."""
    if "group_id" in table.column_names:
        table = table.drop_columns("group_id")
    names = table["sample_id"].to_pylist()
    images = image_names(names)
    if images == names:
        return table
    return table.append_column("group_id", pa.array(images, pa.string()))


def image_names(names: list[str]) -> list[str]:
    """The image of each answer: repetitions of folds answer it as "x", "x, 2", "x, 3"."""
    known = {*names}
    return [
        found[1] if (found := _REPEATED.fullmatch(name)) and found[1] in known else name
        for name in names
    ]


_UNDEFINED: dict[str, Any] = {"lower": math.nan, "upper": math.nan, "flags": []}


@dataclass(frozen=True)
class _Intervals:
    """Intervals of a metric on each slice, by `bootstrap_scores`."""

    table: pa.Table
    metadata: dict
    metric: str
    codes: np.ndarray
    settings: dict

    def of(self, place: int, confidence: float) -> dict:
        some = self.table.filter(pa.array(self.codes == place))
        only = _Only(predictions_from_table(some, self.metadata), self.metric)
        rows = bootstrap_scores(cast("Predictions", only), confidence=confidence, **self.settings)
        return next(row for row in rows if row["metric"] == self.metric)


@dataclass(frozen=True)
class _Only:
    """Predictions with one metric, and the metric per class that it averages."""

    predictions: Predictions
    metric: str

    def __len__(self) -> int:
        return len(self.predictions)

    def __getattr__(self, name: str):
        return getattr(self.predictions, name)

    def evaluate(self) -> dict:
        wanted = {self.metric, metric_of(self.metric).mean_of}
        found = evaluated(self.predictions)
        return {name: value for name, value in found.items() if name in wanted}


@dataclass(frozen=True)
class _Parts:
    """A test set in C cells: the samples of one unit in one slice.

    Attributes
    ----------
    cell_unit, cell_slice : (C,) of each cell, sorted by unit.
    """

    family: Any
    metric: str
    units: Units
    cell_unit: np.ndarray
    cell_slice: np.ndarray

    @classmethod
    def of(cls, predictions: Predictions, codes: np.ndarray, slices: int, metric: str) -> _Parts:
        units = find_units(
            len(predictions), sample_ids=predictions.sample_ids, groups=predictions.groups
        )
        numbers, cell = np.unique(units.index * slices + codes, return_inverse=True)
        _check_metric(metric, predictions)
        family = family_of(predictions, cell)
        return cls(family, metric, units, numbers // slices, numbers % slices)

    def scores(self, chosen: np.ndarray) -> np.ndarray:
        """(B,) metric on each column of (C, B) chosen cells; NaN where it is undefined."""
        found = np.full(chosen.shape[1], np.nan)
        counts, sizes = chosen.view(np.uint8), chosen.sum(axis=0, dtype=np.int64)
        # no family is asked about no sample
        if not sizes.all():
            filled = np.flatnonzero(sizes)
            found[filled] = self.scores(chosen[:, filled]) if len(filled) else np.nan
            return found
        step = max(1, BLOCK_BYTES // max(1, len(chosen)))
        for start in range(0, len(found), step):
            some = slice(start, start + step)
            drawn = Resamples(np.ascontiguousarray(counts[:, some]), sizes[some], 1)
            found[some] = self.family.replicates(drawn, {self.metric})[self.metric]
        return found

    def badness(self, values: np.ndarray) -> np.ndarray:
        """The values, with a sign that makes larger ones worse."""
        return -values if metric_of(self.metric).higher_is_better else values

    def tested(
        self, values: np.ndarray, judged: np.ndarray, permutations: int, seed: int
    ) -> tuple[np.ndarray, float]:
        """(S,) adjusted p-values of "worse than the rest", and the median gap by chance."""
        p_adjusted = np.full(len(values), np.nan)
        if not 2 <= len(judged) <= MOST_TESTED or not permutations:
            return p_adjusted, math.nan
        permutations = max(permutations, _PER_SLICE * len(judged))
        generator = np.random.Generator(np.random.PCG64(seed))
        drawn = np.concatenate(
            [
                self._scores_under(labels, judged)
                for labels in self.permuted(permutations, generator)
            ],
            axis=1,
        )
        apart = drawn[:, ~np.isnan(drawn).any(axis=0)]
        by_chance = float(np.median(np.ptp(apart, axis=0))) if apart.size else math.nan
        every = self.badness(np.concatenate([values[judged, None], drawn], axis=1))
        chances = _upper_tails(every)
        # the smallest of several p-values is the largest of several 1 - p
        p_adjusted[judged] = step_down_max_t(1 - chances[:, 0], lambda some: 1 - chances[some, 1:])
        return p_adjusted, by_chance

    def _scores_under(self, labels: np.ndarray, judged: np.ndarray) -> np.ndarray:
        """(S, B) scores of the judged slices under (C, B) labels."""
        return np.stack([self.scores(labels == place) for place in judged])

    def permuted(self, count: int, generator: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield (C, B) permuted labels, `count` in all."""
        labels = self.cell_slice.astype(np.int16 if self.cell_slice.max() < 1 << 15 else np.int64)
        step = max(1, min(count, BLOCK_BYTES // (8 * len(labels))))
        for start in range(0, count, step):
            width = min(step, count - start)
            drawn = np.empty((width, len(labels)), labels.dtype)
            for cells in self._alike:
                own = labels[cells]
                if cells.shape[1] == 1:
                    same = np.broadcast_to(own[:, 0], (width, len(own)))
                    drawn[:, cells[:, 0]] = generator.permuted(same, axis=1)
                    continue
                # whole sets of labels among these units, then the labels within each unit
                rows = np.broadcast_to(np.arange(len(own)), (width, len(own)))
                moved = own[generator.permuted(rows, axis=1)]
                drawn[:, cells] = generator.permuted(moved, axis=2)
            yield np.ascontiguousarray(drawn.T)

    @cached_property
    def _alike(self) -> list[np.ndarray]:
        """(n, m) cells of the n units with m cells, for each m."""
        numbers = np.bincount(self.cell_unit, minlength=self.units.count)
        of_cell = numbers[self.cell_unit]
        return [
            np.flatnonzero(of_cell == size).reshape(-1, size)
            for size in np.unique(numbers[numbers > 0])
        ]

    def spread(self, values: np.ndarray, judged: np.ndarray) -> float:
        """The spread of the judged slices; see the module. NaN for less than two."""
        if len(judged) < 2:
            return math.nan
        parts = min(PARTS, self.units.count)
        block = self.cell_unit % parts
        moved = np.zeros((len(judged), parts))
        for row, place in enumerate(judged):
            own = self.cell_slice == place
            touched = np.unique(block[own])
            if len(touched) < 2:
                return math.nan
            without = self.scores(own[:, None] & (block[:, None] != touched))
            effect = values[place] - without
            # the jackknife of this slice alone, whose blocks are those that hold some of it
            factor = math.sqrt((len(touched) - 1) / len(touched))
            moved[row, touched] = factor * (effect - effect.mean())
        by_sampling = moved.var(axis=0, ddof=1).sum()
        if math.isnan(by_sampling):
            return math.nan
        return math.sqrt(max(0.0, values[judged].var(ddof=1) - by_sampling))


def _check_metric(metric: str, predictions: Predictions) -> None:
    """Refuse a metric that these predictions do not have as one number, or that has no direction."""
    known = [
        name
        for name, value in evaluated(predictions).items()
        if np.ndim(value) == 0 and metric_of(name).better is not None
    ]
    look_up(
        known, metric, f"the task {predictions.task} has no metric", where="slices",
        remedy=f"name one of {', '.join(known)}",
    )  # fmt: skip


def _upper_tails(rows: np.ndarray) -> np.ndarray:
    """(S, B) share of the numbers of a row that are as large, itself included; NaN is smallest."""
    scale = np.nanmax(np.abs(rows), initial=0.0) or 1.0
    rows = np.where(np.isnan(rows), -np.inf, np.round(rows / scale, _DIGITS))
    ordered = np.sort(rows, axis=1)
    count = rows.shape[1]
    return np.stack(
        [
            (count - np.searchsorted(line, row, side="left")) / count
            for line, row in zip(ordered, rows, strict=True)
        ]
    )
