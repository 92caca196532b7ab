"""Paired comparison of backbones: differences of a metric on the same resamples of one test set.

Of metrics `OF_CURVES` the replicates of a difference are mirrored at it, as they are for the interval
of one score (`intervals.reflected`): the bias of a difference is the difference of two biases, which
cancel for backbones that are alike and not otherwise. The p-value counts the mirrored replicates
beyond 0. That is how often a replicate strays from the difference by more than the difference itself,
so that it is the test of no difference with the replicates moved to where there is none, and at the
same time what inverts the interval: p <= 0.05 where the 95 % interval leaves 0 out.
Of calibration errors, each backbone's replicates are mirrored as squares (`intervals.reflected_square`)
before their difference is taken: chance adds most to the backbone that is calibrated best. Simulated
differences were held by 0.84 to 0.99 of such intervals of 95 %, where percentiles held as few as 0.05.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.tasks import (
    BRIER,
    CALIBRATION,
    CALIBRATION_ERRORS,
    LOWER_IS_BETTER,
    OF_CURVES,
    OF_GAPS,
    PRIMARY,
    UNRANKED,
    overall_metrics,
)

from .gates import comparison_gates
from .intervals import check_method, percentile_interval, reflected, reflected_square
from .p_values import bootstrap_p_value, mcnemar_p_value, step_down_max_t
from .predictions import Predictions
from .resamples import Resamples, iter_resamples
from .units import Units, find_units

ADJUSTMENT = "romano_wolf"
_ROUNDING = 1e-12
# what is compared of calibration: the score that is proper, and the error that is read most
CALIBRATION_COMPARED = (BRIER, CALIBRATION_ERRORS[0])


def compare(
    predictions_by_backbone: dict[str, Predictions],
    *,
    metric: str | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int,
    calibration: dict | None = None,
) -> list[dict]:
    """Differences between all pairs of backbones, each with interval and p-values.

    Parameters
    ----------
    predictions_by_backbone : of one dataset, probe and seed.
    metric : an overall metric of the task; default its primary one, and with `calibration` after it
        those in `CALIBRATION_COMPARED`.
    resamples : see `p_values.bootstrap_p_value` for why 200 are too few here.
    seed : the dataset's; with that and the number of resamples of `bootstrap_scores`, the very
        resamples of the intervals.
    calibration : options of `calibration.Calibration`, for predictions with probabilities, or None.

    Returns
    -------
    Rows ``metric, higher_is_better, backbone_a, backbone_b, difference (a - b), lower, upper, p_value,
    p_adjusted, adjustment, p_mcnemar, n_undefined, gates, confidence, resamples, unit, n_units, n_test,
    bootstrap_seed``, for pairs in the order of the names. Where less is better, a negative difference
    speaks for a. The family of ``p_adjusted`` is all pairs of this call with one metric, and
    ``adjustment`` names the procedure (`p_values.step_down_max_t`). ``gates`` are those of
    `comparison_gates`.
    With a single unit, which every resample repeats, p-values are NaN.
    ``p_mcnemar`` (unadjusted) is given for accuracy where images are the units and each has one
    answer, else None.
    Empty for fewer than two backbones.

    Raises
    ------
    PermafrostError : unknown metric; test samples, targets, groups, classes or rules of two
        backbones that differ (both are named).
    """
    check_method("percentile", confidence)
    names = sorted(predictions_by_backbone)
    if len(names) < 2:
        return []
    first = predictions_by_backbone[names[0]]
    for name in names[1:]:
        _check_same_test_set(names[0], first, name, predictions_by_backbone[name])
    judged = calibration is not None
    metrics = [_known_metric(metric, first, calibration=judged)]
    if metric is None and judged:
        metrics += CALIBRATION_COMPARED
    units = find_units(len(first), sample_ids=first.sample_ids, groups=first.groups)
    families = [
        _family(predictions_by_backbone[name], units, metrics, calibration) for name in names
    ]
    values = [family.values for family in families]
    replicates = _replicate_all(families, metrics, units, resamples, seed)
    gates = comparison_gates(units.count, resamples, confidence)
    common = {
        "adjustment": ADJUSTMENT,
        "gates": ";".join(gates),
        "confidence": confidence,
        "resamples": resamples,
        "unit": units.kind,
        "n_units": units.count,
        "n_test": len(first),
        "bootstrap_seed": seed,
    }
    pairs = list(itertools.combinations(range(len(names)), 2))
    rows: list[dict] = []
    for metric in metrics:
        differences = [
            _Difference(
                metric,
                (values[a][metric], values[b][metric]),
                (replicates[a][metric], replicates[b][metric]),
            )
            for a, b in pairs
        ]
        found = [one.row(confidence, testable=units.count > 1) for one in differences]
        adjusted = _adjusted(differences, [row["p_value"] for row in found])
        rows += [
            {
                "metric": metric,
                "higher_is_better": metric not in LOWER_IS_BETTER,
                "backbone_a": names[a],
                "backbone_b": names[b],
                **row,
                "p_adjusted": p_adjusted,
                "p_mcnemar": _mcnemar(
                    metric,
                    units,
                    predictions_by_backbone[names[a]],
                    predictions_by_backbone[names[b]],
                ),
                **common,
            }
            for (a, b), row, p_adjusted in zip(pairs, found, adjusted, strict=True)
        ]
    return rows


@dataclass(frozen=True)
class _Family:
    """Values of some metrics on the whole test set, and what has them on resamples."""

    values: dict[str, float]
    parts: list[tuple]  # (family, its metrics)

    def replicates(self, block: Resamples) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for family, metrics in self.parts:
            found |= family.replicates(block, metrics)
        return found


def _family(
    one: Predictions, units: Units, metrics: list[str], calibration: dict | None
) -> _Family:
    own = [metric for metric in metrics if metric not in CALIBRATION]
    values, parts = {}, []
    if own:
        evaluated = one.evaluate()
        values |= {metric: float(evaluated[metric]) for metric in own}
        parts.append((one.family(units.index), own))
    if len(own) < len(metrics):
        from .calibration import calibration_of

        judged = calibration_of(one, units.index, calibration)
        wanted = [metric for metric in metrics if metric in CALIBRATION]
        values |= judged.evaluate(wanted)
        parts.append((judged, wanted))
    return _Family(values, parts)


def _replicate_all(
    families: list[_Family], metrics: list[str], units: Units, resamples: int, seed
) -> list[dict[str, np.ndarray]]:
    """(B,) replicates of each metric for each family; every block of resamples serves all."""
    blocks = [
        [family.replicates(block) for family in families]
        for block in iter_resamples(units.count, resamples, seed)
    ]
    return [
        {metric: np.concatenate([part[metric] for part in parts]) for metric in metrics}
        for parts in zip(*blocks, strict=True)
    ]


@dataclass(frozen=True)
class _Difference:
    """The difference of two backbones; what it is on resamples is worked out when it is asked for.

    Attributes
    ----------
    metric : its name.
    values : of both on the whole test set.
    replicates : (B,) of both on the same resamples.
    """

    metric: str
    values: tuple[float, float]
    replicates: tuple[np.ndarray, np.ndarray]

    @property
    def value(self) -> float:
        return self.values[0] - self.values[1]

    def drawn(self) -> np.ndarray:
        """(B,) replicates of the difference, mirrored where the metric asks for it."""
        if self.metric in OF_GAPS:
            first, second = map(reflected_square, self.values, self.replicates)
            return first - second
        drawn = self.replicates[0] - self.replicates[1]
        return reflected(self.value, drawn) if self.metric in OF_CURVES else drawn

    def row(self, confidence: float, *, testable: bool) -> dict:
        drawn = self.drawn()
        lower, upper = percentile_interval(drawn, confidence)
        return {
            "difference": self.value,
            "lower": lower,
            "upper": upper,
            "p_value": bootstrap_p_value(drawn) if testable else float("nan"),
            "n_undefined": int(np.count_nonzero(np.isnan(drawn))),
        }

    def studentised(self) -> tuple[float, np.ndarray]:
        """The difference in standard errors, and (B,) how far replicates stray from it; both as sizes."""
        drawn = self.drawn()
        defined = drawn[~np.isnan(drawn)]
        # gaps are mirrored as squares, whose centre is the difference without what chance adds
        centre = float(defined.mean()) if self.metric in OF_GAPS else self.value
        error = float(defined.std())
        if error <= _ROUNDING:
            return (math.inf if abs(centre) > _ROUNDING else 0.0), np.zeros_like(drawn)
        return abs(centre) / error, np.abs(drawn - centre) / error


def _adjusted(differences: list[_Difference], p_values: list[float]) -> list[float]:
    """Adjusted p-values of a family; never below those of the single tests, and those where there is one."""
    defined = ~np.isnan(p_values)
    if np.count_nonzero(defined) < 2:
        return list(p_values)
    statistics = [
        one.studentised()[0] if known else math.nan
        for one, known in zip(differences, defined, strict=True)
    ]
    adjusted = step_down_max_t(statistics, lambda pair: differences[pair].studentised()[1])
    return np.maximum(adjusted, p_values).tolist()


def _mcnemar(metric: str, units: Units, a: Predictions, b: Predictions) -> float | None:
    if metric != "accuracy" or units.kind != "image":
        return None
    # McNemar's test is of one pair of answers to each image, not of a mean over several
    if any(len(getattr(one, "drawn", ())) > 1 for one in (a, b)):
        return None
    right_a, right_b = a.answers == a.truth, b.answers == b.truth
    return mcnemar_p_value(
        int(np.count_nonzero(right_a & ~right_b)), int(np.count_nonzero(right_b & ~right_a))
    )


def _known_metric(metric: str | None, predictions: Predictions, *, calibration: bool) -> str:
    known = overall_metrics(
        predictions.task,
        len(predictions.classes),
        boundary=predictions.boundary,
        calibration=calibration,
    )
    known = [name for name in known if name not in UNRANKED]
    if metric is None:
        return PRIMARY[predictions.task]
    if metric not in known:
        raise PermafrostError(
            f"{metric!r} is not an overall metric of the task {predictions.task!r}",
            remedy=near_names(metric, known),
        )
    return metric


def _check_same_test_set(name_a: str, a: Predictions, name_b: str, b: Predictions) -> None:
    """Refuse to pair predictions that are not of the same samples with the same truth."""
    problem = None
    if a.task != b.task or a.classes != b.classes:
        problem = "tasks or classes"
    elif not np.array_equal(a.sample_ids, b.sample_ids):
        different = np.setxor1d(a.sample_ids, b.sample_ids)
        problem = f"test samples ({len(different)} are in one only, the first is {different[0]})"
    elif a.dead_classes != b.dead_classes:
        problem = "dead classes"
    elif a.rules != b.rules:
        problem = f"rules ({a.rules} and {b.rules})"
    elif not np.array_equal(a.truth_keys, b.truth_keys):
        differs = (a.truth_keys != b.truth_keys).reshape(len(a), -1).any(axis=1)
        problem = f"targets (first for the sample {a.sample_ids[differs][0]})"
    elif not np.array_equal(_names(a.groups), _names(b.groups)):
        problem = "groups"
    if problem:
        raise PermafrostError(
            f"the backbones {name_a!r} and {name_b!r} were evaluated with different {problem}",
            remedy="delete the predictions of both and run snakemake again",
        )


def _names(groups) -> np.ndarray:
    return np.array([]) if groups is None else np.array([str(group) for group in groups])
