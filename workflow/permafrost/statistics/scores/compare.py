"""Paired comparison of backbones: differences of a metric on the same blocks of one test set.

Several seeds of a backbone, and several draws of its training set, are runs; means over runs are
compared. The test of a difference, and the adjustment for the number of pairs, are in `paired`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.metrics.tasks import (
    AURC,
    BRIER,
    CALIBRATION,
    CALIBRATION_ERRORS,
    metric_of,
    overall_metrics,
    primary_metric,
)
from permafrost.statistics.options import Comparison
from permafrost.statistics.predictions.calibration import calibration_of
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.predictions.settings import Draws
from permafrost.statistics.resampling.intervals import check_method
from permafrost.statistics.resampling.jackknife import PARTS
from permafrost.statistics.resampling.p_values import mcnemar_p_value
from permafrost.statistics.resampling.paired import paired_by_jackknife
from permafrost.statistics.resampling.paired_gaps import paired_gaps
from permafrost.statistics.resampling.resamples import Resamples, iter_jackknife, iter_resamples
from permafrost.statistics.resampling.units import Units, find_units
from permafrost.statistics.scores.gates import chance_level, comparison_gates

ADJUSTMENT = "romano_wolf"
# calibration metrics to compare: the proper score, the most common error, and selective prediction
CALIBRATION_COMPARED = (BRIER, CALIBRATION_ERRORS[0], AURC)

# bytes of calibration sums that wait for resamples; beyond, resamples are drawn again for further
# backbones
_WAITING_BYTES = 512 << 20


def compare(
    predictions_by_backbone: Mapping[str, Predictions | Mapping[int, Predictions]],
    *,
    metric: str | None = None,
    resamples: int = Comparison.resamples,
    confidence: float = Comparison.confidence,
    seed: int,
    calibration: dict | None = None,
    reference: str | None = None,
) -> list[dict]:
    """Differences between all pairs of backbones, each with interval and p-values.

    Parameters
    ----------
    predictions_by_backbone : of one dataset and probe; per backbone one, or one per seed. Each is
        read once and released before the next. Two backbones are compared on the seeds that both
        have; pairs without a common seed are skipped.
    metric : an overall metric of the task; by default its primary one, followed with `calibration`
        by `CALIBRATION_COMPARED`.
    resamples : adjusted p-values are at least 1 / (resamples + 1).
    seed : the dataset's, so that all its comparisons have the same resamples.
    calibration : options of `calibration.Calibration`, for predictions with probabilities, or None.
    reference : only pairs with this backbone; None: all.

    Returns
    -------
    Rows ``metric, higher_is_better, backbone_a, backbone_b, difference (a - b), lower, upper,
    p_value, p_adjusted, detectable, adjustment, p_mcnemar, n_undefined, gates, confidence,
    resamples, unit, n_units, n_test, seeds, n_runs, bootstrap_seed``, for pairs in the order of the
    names. If lower is better, a negative difference favours a. The family of ``p_adjusted`` is all
    pairs of this call with one metric, and ``adjustment`` names the procedure
    (`p_values.step_down_max_t`). ``detectable`` is the smallest difference that this family detects
    with 80 % power, None if none is large enough. ``seeds`` (joined by semicolons) are those that
    both have, ``n_runs`` the number of averaged runs: seeds times draws. ``gates`` are the warnings
    of `comparison_gates`, and for calibration `Calibration.few_errors` of both. With a single unit,
    which every resample repeats, p-values are NaN. ``p_mcnemar`` (unadjusted) is given for accuracy
    if images are the units and each has a single prediction, else None. Runs that are the same for
    all backbones count once. Empty for fewer than two backbones.

    Raises
    ------
    PermafrostError : unknown metric; two backbones differ in test samples, targets, groups, classes
        or rules (the message names both).
    """
    check_method("percentile", confidence)
    names = sorted(predictions_by_backbone)
    if len(names) < 2:
        return []
    judged = calibration is not None
    runs = _by_seed(predictions_by_backbone[names[0]])
    first = next(iter(runs.values()))
    metrics = [_known_metric(metric, first, calibration=judged)]
    if metric is None and judged:
        metrics += CALIBRATION_COMPARED
    units = find_units(len(first), sample_ids=first.sample_ids, groups=first.groups)
    chance = chance_level(first.truth, first.task, first.dead_classes)
    test_set = _TestSet.of(names[0], first)
    found = _Found(metrics, units, resamples, seed)
    for place, name in enumerate(names):
        runs = _by_seed(predictions_by_backbone[name]) if runs is None else runs
        for of_seed in runs:
            one = runs[of_seed] if first is None else first
            first = None
            test_set.check(name, one)
            for draw, run in enumerate(_draws(one)):
                found.add((place, of_seed, draw), run, _family(run, units, metrics, calibration))
            # release the predictions; only the results are kept
            one = run = None
        runs = None
    found.draw()
    pairs = [
        pair
        for pair in itertools.combinations(range(len(names)), 2)
        if found.common(*pair) and reference in (None, *(names[place] for place in pair))
    ]
    if not pairs:
        return []
    common = {
        "adjustment": ADJUSTMENT,
        "confidence": confidence,
        "resamples": resamples,
        "unit": units.kind,
        "n_units": units.count,
        "n_test": test_set.count,
        "bootstrap_seed": seed,
    }
    drawn: dict[str, Any] = {"units": units, "confidence": confidence, "seed": seed}
    rows: list[dict] = []
    for metric in metrics:
        values, replicates = found.of(metric)
        known = metric_of(metric)
        if known.of_gaps:
            columns = paired_gaps(values, replicates, np.array(pairs), **drawn)
        else:
            about: dict[str, Any] = {
                "resamples": resamples,
                "bounded": known.bounds == "unit",
                "shared": found.shared,
            }
            columns = paired_by_jackknife(values, replicates, np.array(pairs), **drawn, **about)
        room = 1 - chance if metric == metrics[0] and known.highest == 1 else np.inf
        gates = comparison_gates(
            units.count, resamples, confidence, detectable=columns.detectable, room=room
        )
        rows += [
            {
                "metric": metric,
                "higher_is_better": known.higher_is_better,
                "backbone_a": names[a],
                "backbone_b": names[b],
                **{name: column[place].item() for name, column in vars(columns).items()},
                "detectable": _or_none(columns.detectable[place]),
                "p_mcnemar": _mcnemar(found.right(a), found.right(b))
                if metric == "accuracy"
                else None,
                "gates": ";".join([*gates, *found.few_errors(metric, a, b)]),
                "seeds": ";".join(map(str, dict.fromkeys(run[0] for run in found.common(a, b)))),
                "n_runs": len(found.common(a, b)),
                **common,
            }
            for place, (a, b) in enumerate(pairs)
        ]
    return rows


def _or_none(value: np.floating) -> float | None:
    return None if np.isnan(value) else value.item()


def _by_seed(given: Predictions | Mapping[int, Predictions]) -> Mapping[int, Predictions]:
    return given if isinstance(given, Mapping) else {0: given}


def _draws(one: Predictions) -> Sequence[Predictions]:
    return one.each() if isinstance(one, Draws) else [one]


class _Found:
    """Results of each run of K backbones: values, and replicates from J blocks or B resamples.

    A run is (seed, draw), and a key (index of the backbone, seed, draw).

    Attributes
    ----------
    values : metric to key to value.
    replicates : metric to key to (J,), or to (B,) for metrics ``of_gaps``.
    answered : key to packed bits, which samples are right; None if McNemar's test does not apply.
    """

    def __init__(self, metrics: list[str], units: Units, resamples: int, seed: int) -> None:
        self.units, self.resamples, self.seed = units, resamples, seed
        self.gaps = [metric for metric in metrics if metric_of(metric).of_gaps]
        self.smooth = [metric for metric in metrics if metric not in self.gaps]
        self.values: dict[str, dict] = {metric: {} for metric in metrics}
        self.replicates: dict[str, dict] = {metric: {} for metric in metrics}
        self.answered: dict[tuple, np.ndarray | None] = {}
        self._waiting: list[tuple[tuple, _Family]] = []
        self._few: dict[tuple, list[str]] = {}

    def add(self, key: tuple[int, int, int], one: Predictions, family: _Family) -> None:
        for metric, value in family.values.items():
            self.values[metric][key] = value
        for metric in self.smooth:
            # with a single unit, leaving it out leaves nothing
            blocks = iter_jackknife(self.units.count, PARTS) if self.units.count > 1 else ()
            parts = [family.replicates(block, metric) for block in blocks]
            self.replicates[metric][key] = np.concatenate(parts) if parts else np.full(1, np.nan)
        self.answered[key] = _right(one, self.units)
        self._few[key] = family.few_errors
        if self.gaps:
            self._waiting.append((key, family.only(self.gaps)))
            if sum(waiting.nbytes for _, waiting in self._waiting) > _WAITING_BYTES:
                self.draw()

    def draw(self) -> None:
        """Compute the waiting replicates: every block of resamples serves all of them."""
        if not self._waiting:
            return
        for key, _ in self._waiting:
            for metric in self.gaps:
                self.replicates[metric][key] = np.empty(self.resamples)
        first = 0
        for block in iter_resamples(self.units.count, self.resamples, self.seed):
            part = slice(first, first + len(block))
            for key, family in self._waiting:
                for metric in self.gaps:
                    self.replicates[metric][key][part] = family.replicates(block, metric)
            first = part.stop
        self._waiting = []

    @property
    def shared(self) -> bool:
        """Whether runs are draws of a training set, the same for all backbones."""
        return any(draw for _, _, draw in self.answered)

    def common(self, *places: int) -> list[tuple[int, int]]:
        """The runs that all of these backbones have."""
        each = [{key[1:] for key in self.answered if key[0] == place} for place in places]
        return sorted(set.intersection(*each))

    def of(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """(R, K) values and (R, K, J) or (R, K, B) replicates, NaN for missing runs."""
        own = self.replicates[metric]
        runs = sorted({key[1:] for key in own})
        count = 1 + max(key[0] for key in own)
        width = len(next(iter(own.values())))
        values = np.full((len(runs), count), np.nan)
        replicates = np.full((len(runs), count, width), np.nan)
        for (place, *run), drawn in own.items():
            at = runs.index(tuple(run)), place
            values[at], replicates[at] = self.values[metric][place, *run], drawn
        same = [
            np.array_equal(each, each[:1].repeat(len(runs), 0), True)
            for each in (values, replicates)
        ]
        return (values[:1], replicates[:1]) if all(same) else (values, replicates)

    def few_errors(self, metric: str, *places: int) -> list[str]:
        """Calibration warnings of any run of these backbones."""
        if metric not in CALIBRATION:
            return []
        return sorted({gate for key in self._few if key[0] in places for gate in self._few[key]})

    def right(self, place: int) -> np.ndarray | None:
        """Which samples a backbone gets right, if all of its runs agree."""
        bits = [one for key, one in self.answered.items() if key[0] == place]
        alike = all(one is not None and np.array_equal(one, bits[0]) for one in bits)
        return bits[0] if alike else None


@dataclass(frozen=True)
class _Family:
    """Values of metrics on the whole test set, and the families that evaluate resamples."""

    values: dict[str, float]
    parts: list[tuple]  # (family, its metrics)

    def replicates(self, block: Resamples, metric: str) -> np.ndarray:
        """(B,) values of one of the metrics."""
        family = next(family for family, metrics in self.parts if metric in metrics)
        return family.replicates(block, [metric])[metric]

    def only(self, metrics: list[str]) -> _Family:
        """Only the parts that some calibration errors need."""
        parts = [(family, own) for family, own in self.parts if set(own) & set(metrics)]
        return _Family({}, [(family.without_scores(), own) for family, own in parts])

    @property
    def few_errors(self) -> list[str]:
        return [gate for family, _ in self.parts for gate in getattr(family, "few_errors", ())]

    @property
    def nbytes(self) -> int:
        return sum(family.sums.nbytes for family, _ in self.parts)


def _family(
    one: Predictions, units: Units, metrics: list[str], calibration: dict | None
) -> _Family:
    of_scores = [metric for metric in metrics if metric not in CALIBRATION]
    values: dict[str, float]
    parts: list[tuple]
    values, parts = {}, []
    if of_scores:
        evaluated = one.evaluate()
        values |= {metric: float(evaluated[metric]) for metric in of_scores}
        parts.append((one.family(units.index), of_scores))
    if len(of_scores) < len(metrics):
        judged = calibration_of(one, units.index, calibration)
        wanted = [metric for metric in metrics if metric in CALIBRATION]
        values |= judged.evaluate(wanted)
        parts.append((judged, wanted))
    return _Family(values, parts)


def _right(one: Predictions, units: Units) -> np.ndarray | None:
    """Packed bits, which samples are right, if images are units with one prediction each."""
    if primary_metric(one.task) != "accuracy" or units.kind != "image":
        return None
    return np.packbits(one.answers == one.truth)


def _mcnemar(a: np.ndarray | None, b: np.ndarray | None) -> float | None:
    if a is None or b is None:
        return None
    return mcnemar_p_value(*(int(np.bitwise_count(bits).sum()) for bits in (a & ~b, b & ~a)))


def _known_metric(metric: str | None, predictions: Predictions, *, calibration: bool) -> str:
    known: Sequence[str] = overall_metrics(
        predictions.task,
        len(predictions.classes),
        boundary=predictions.boundary,
        calibration=calibration,
    )
    known = [name for name in known if metric_of(name).better]
    if metric is None:
        return primary_metric(predictions.task)
    return look_up(known, metric, f"the task {predictions.task!r} has no overall metric")


@dataclass(frozen=True)
class _TestSet:
    """Properties of the test set from the predictions of one backbone, with its name."""

    name: str
    task: str
    classes: list[str]
    sample_ids: np.ndarray
    dead_classes: tuple[int, ...]
    rules: tuple
    truth_keys: np.ndarray
    groups: np.ndarray

    @classmethod
    def of(cls, name: str, one: Predictions) -> _TestSet:
        return cls(
            name,
            one.task,
            one.classes,
            one.sample_ids,
            one.dead_classes,
            one.rules,
            one.truth_keys,
            _names(one.groups),
        )

    @property
    def count(self) -> int:
        return len(self.sample_ids)

    def check(self, name: str, other: Predictions) -> None:
        """Refuse to pair predictions with different samples or truth."""
        problem = None
        if self.task != other.task or self.classes != other.classes:
            problem = "tasks or classes"
        elif not np.array_equal(self.sample_ids, other.sample_ids):
            different = np.setxor1d(self.sample_ids, other.sample_ids)
            problem = (
                f"test samples ({len(different)} are in one only, the first is {different[0]})"
            )
        elif self.dead_classes != other.dead_classes:
            problem = "dead classes"
        elif self.rules != other.rules:
            problem = f"rules ({self.rules} and {other.rules})"
        elif not np.array_equal(self.truth_keys, other.truth_keys):
            differs = (self.truth_keys != other.truth_keys).reshape(self.count, -1).any(axis=1)
            problem = f"targets (first for the sample {self.sample_ids[differs][0]})"
        elif not np.array_equal(self.groups, _names(other.groups)):
            problem = "groups"
        if problem:
            raise PermafrostError(
                f"the backbones {self.name!r} and {name!r} were evaluated with different {problem}",
                remedy="delete the predictions of both and run snakemake again",
            )


def _names(groups) -> np.ndarray:
    return np.array([]) if groups is None else np.array([str(group) for group in groups])
