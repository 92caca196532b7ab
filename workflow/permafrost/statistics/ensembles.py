"""Ensembles of backbones: the average of their probabilities, or of their predicted numbers, from kept predictions.

A probe of each backbone answers by itself, and the answers are averaged; no probe is trained again. Two questions:

- Which pair is better than both of its halves? A pair is called better if it is significantly better than each of the
  two; its p-value is the larger of the two (intersection-union), adjusted over all pairs by Holm's procedure.
- How many backbones help? Greedy selection adds the backbone that makes the average best. Chosen and scored on the
  same images, its score is too high; so each fifth of the units is answered by members chosen on the other four.

Source: Caruana, Niculescu-Mizil, Crew and Ksikes, Ensemble Selection from Libraries of Models (2004), here without
replacement; Berger, Multiparameter Hypothesis Testing and Acceptance Sampling (1982), for the larger p-value.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.targets import Labels
from permafrost.core.tasks import targets_of
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.options import Comparison
from permafrost.statistics.predictions.formulas import evaluated, family_of
from permafrost.statistics.predictions.labelled import LabelledSamples
from permafrost.statistics.predictions.numbers import PredictedNumbers
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.resampling.p_values import holm
from permafrost.statistics.resampling.resamples import Resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.compare import compare

#: parts of the units, each answered by members that are chosen on the others
FOLDS = 5
#: members of the largest ensemble that greedy selection makes
MOST_MEMBERS = 5

#: seed -> predictions of a backbone
Runs = Mapping[int, Predictions]


@dataclass(frozen=True)
class Ensemble:
    """An ensemble, compared with a single backbone.

    Attributes
    ----------
    members : the backbones, sorted; of a greedy ensemble, in the order of selection on all units.
    value : the metric, as a mean over seeds; of a greedy ensemble, with members chosen on other units.
    single, single_value : of a pair its better half; of a greedy ensemble the best backbone, chosen in the same way.
    difference, lower, upper : value less that of the single backbone, with the paired interval.
    p_value, p_adjusted : two-sided, of no difference; see the module. NaN if nothing could be tested.
    confidence : of the interval. gates : warnings, as in `compare`.
    """

    members: tuple[str, ...]
    metric: str
    value: float
    single: str
    single_value: float
    difference: float
    lower: float
    upper: float
    p_value: float
    p_adjusted: float
    confidence: float
    gates: str

    @property
    def better(self) -> bool:
        """Whether it is significantly better than the single backbone; a pair: than each of its halves."""
        higher = metric_of(self.metric).higher_is_better
        return (self.difference > 0) == higher and self.p_adjusted <= 1 - self.confidence


def average(members: Sequence[Predictions]) -> Predictions:
    """The predictions of an ensemble: mean probabilities with the answers that follow, or mean numbers.

    Raises
    ------
    PermafrostError : predictions without probabilities or numbers of whole images; other samples.
    """
    known = [one for one in members if isinstance(one, (LabelledSamples, PredictedNumbers))]
    first = known[0] if known else None
    if first is None or len(known) < len(members):
        raise PermafrostError(
            "only one prediction per image, with probabilities of classes or with a number, can be averaged",
            remedy="name a probe of whole images without repeated draws, such as linear or ridge",
        )
    for key in ("sample_ids", "truth_keys"):
        if any(not np.array_equal(getattr(first, key), getattr(one, key)) for one in known):
            raise PermafrostError(
                "the backbones were evaluated with different test samples or targets",
                remedy="delete their predictions and run snakemake again",
            )
    if len(members) == 1:
        return first
    if isinstance(first, PredictedNumbers):
        return replace(first, prediction=np.mean([one.prediction for one in known], axis=0))
    labelled = cast("list[LabelledSamples]", known)
    scores = np.mean([np.asarray(one.scores, np.float64) for one in labelled], axis=0)
    targets = cast("Labels", targets_of(first.task))
    return replace(first, scores=scores, prediction=targets.answers(scores))


def pairs(
    backbones: Mapping[str, Runs], *, metric: str | None = None, seed: int = 0
) -> list[Ensemble]:
    """All pairs of backbones, compared with their better halves; the best first.

    Parameters
    ----------
    backbones : of one dataset and probe. metric : by default the primary one. seed : of the resamples.

    Raises
    ------
    PermafrostError : as in `average` and `compare`; less than two backbones.
    """
    known = _Averages.of(backbones, metric)
    found = [known.compared(pair, seed) for pair in itertools.combinations(known.names, 2)]
    adjusted = holm([one.p_value for one in found])
    found = [replace(one, p_adjusted=float(p)) for one, p in zip(found, adjusted, strict=True)]
    return sorted(found, key=lambda one: (known.badness(one.value), one.members))


def greedy(
    backbones: Mapping[str, Runs], *, metric: str | None = None, seed: int = 0
) -> list[Ensemble]:
    """Ensembles of two to `MOST_MEMBERS` backbones by greedy selection, compared with the best backbone.

    Parameters and errors as in `pairs`. There must be `FOLDS` units or more.
    """
    known = _Averages.of(backbones, metric)
    return known.selected(min(MOST_MEMBERS, len(known.names)), seed)


class _Averages:
    """Averages of the backbones of one dataset and probe, each computed once.

    Parameters
    ----------
    backbones : with the same seeds.
    """

    def __init__(self, backbones: Mapping[str, Runs], metric: str) -> None:
        self.backbones, self.metric = backbones, metric
        self.names = sorted(backbones)
        self._values: dict[tuple[str, ...], np.ndarray] = {}

    @classmethod
    def of(cls, backbones: Mapping[str, Runs], metric: str | None) -> _Averages:
        if len(backbones) < 2:
            raise PermafrostError(
                "an ensemble needs at least two backbones",
                remedy="name a dataset and a probe that several backbones have predictions of",
            )
        seeds = set.intersection(*({*runs} for runs in backbones.values()))
        if not seeds:
            raise PermafrostError(
                "no seed is common to all backbones", remedy="run snakemake again"
            )
        shared = {
            name: {seed: runs[seed] for seed in sorted(seeds)} for name, runs in backbones.items()
        }
        task = next(iter(next(iter(shared.values())).values())).task
        return cls(shared, primary_metric(task) if metric is None else metric)

    @property
    def _first(self) -> Predictions:
        return next(iter(self.backbones[self.names[0]].values()))

    def badness(self, value):
        """A value, with a sign that makes larger ones worse; NaN is worst."""
        signed = -value if metric_of(self.metric).higher_is_better else value
        return np.where(np.isnan(signed), np.inf, signed)

    def runs(self, members: Sequence[str]) -> dict[int, Predictions]:
        """The predictions of an ensemble, by seed."""
        seeds = self.backbones[self.names[0]]
        return {
            seed: average([self.backbones[one][seed] for one in sorted(members)]) for seed in seeds
        }

    @cached_property
    def _fold(self) -> np.ndarray:
        """(N,) fold of each sample. Units are numbered at random, see `Units`."""
        first = self._first
        units = find_units(len(first), sample_ids=first.sample_ids, groups=first.groups)
        if units.count < FOLDS:
            raise PermafrostError(
                f"the test set has {units.count} independent {units.kind}s, and greedy selection needs {FOLDS}",
                remedy="look at pairs, which select nothing",
            )
        return units.index % FOLDS

    def _scores(self, members: tuple[str, ...]) -> np.ndarray:
        """(FOLDS + 1,) metric without each fold, then on all samples; a mean over seeds."""
        key = tuple(sorted(members))
        if key not in self._values:
            chosen = np.concatenate([1 - np.eye(FOLDS), np.ones((FOLDS, 1))], axis=1)
            counts = np.ascontiguousarray(chosen.astype(np.uint8))
            sizes = counts.sum(axis=0, dtype=np.int64)
            drawn = Resamples(counts, sizes, 1)
            self._values[key] = np.mean(
                [
                    family_of(one, self._fold).replicates(drawn, {self.metric})[self.metric]
                    for one in self.runs(key).values()
                ],
                axis=0,
            )
        return self._values[key]

    def _order(self, place: int, most: int) -> list[str]:
        """The backbones in the order of greedy selection: without the fold `place`, or on all samples (`FOLDS`)."""
        chosen: list[str] = []
        while len(chosen) < most:
            left = [name for name in self.names if name not in chosen]
            bad = [float(self.badness(self._scores((*chosen, name))[place])) for name in left]
            chosen.append(left[int(np.argmin(bad))])
        return chosen

    def selected(self, most: int, seed: int) -> list[Ensemble]:
        """See `greedy`."""
        orders = [self._order(place, most) for place in range(FOLDS + 1)]
        answered = [
            self._joined([order[:size] for order in orders[:-1]]) for size in range(1, most + 1)
        ]
        found = [
            self._ensemble(tuple(orders[-1][:size]), runs, {orders[-1][0]: answered[0]}, seed)
            for size, runs in enumerate(answered[1:], 2)
        ]
        adjusted = holm([one.p_value for one in found])
        return [replace(one, p_adjusted=float(p)) for one, p in zip(found, adjusted, strict=True)]

    def _joined(self, members: list[list[str]]) -> dict[int, Predictions]:
        """Predictions of each fold by its own members, by seed."""
        each = [self.runs(one) for one in members]
        joined = {}
        for seed, first in each[0].items():
            changed = {}
            for name in ("prediction", "scores"):
                if hasattr(first, name):
                    rows = np.stack([np.asarray(getattr(one[seed], name)) for one in each])
                    changed[name] = rows[self._fold, np.arange(len(self._fold))]
            joined[seed] = replace(first, **changed)  # type: ignore[type-var]
        return joined

    def compared(self, members: tuple[str, ...], seed: int) -> Ensemble:
        """A pair and its halves."""
        singles = {name: self.backbones[name] for name in members}
        return self._ensemble(members, self.runs(members), singles, seed)

    def _ensemble(
        self, members: tuple[str, ...], runs: Runs, singles: Mapping[str, Runs], seed: int
    ) -> Ensemble:
        # no backbone has an empty name
        rows = compare({"": runs, **singles}, metric=self.metric, seed=seed, reference="")
        values = {name: self._value(one) for name, one in singles.items()}
        single = min(values, key=lambda name: (self.badness(values[name]), name))
        row = next(row for row in rows if row["backbone_b"] == single)
        p_values = [row["p_value"] for row in rows]
        return Ensemble(
            members,
            self.metric,
            self._value(runs),
            single,
            values[single],
            row["difference"],
            row["lower"],
            row["upper"],
            math.nan if np.isnan(p_values).any() else max(p_values),
            math.nan,
            Comparison.confidence,
            row["gates"],
        )

    def _value(self, runs: Runs) -> float:
        return float(np.mean([evaluated(one)[self.metric] for one in runs.values()]))
