"""Paired comparison of backbones: differences of a metric on the same parts of one test set.

How a difference is tested, and adjusted for the number of pairs, is in `paired`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.tasks import (
    BRIER,
    CALIBRATION,
    CALIBRATION_ERRORS,
    metric_of,
    overall_metrics,
    primary_metric,
)
from permafrost.statistics.predictions.reading import Predictions
from permafrost.statistics.resampling.intervals import check_method
from permafrost.statistics.resampling.jackknife import PARTS
from permafrost.statistics.resampling.p_values import mcnemar_p_value
from permafrost.statistics.resampling.paired import paired_by_jackknife, paired_gaps
from permafrost.statistics.resampling.resamples import Resamples, iter_jackknife, iter_resamples
from permafrost.statistics.resampling.units import Units, find_units
from permafrost.statistics.scores.gates import comparison_gates

ADJUSTMENT = "romano_wolf"
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
    resamples : no adjusted p-value is below 1 / (resamples + 1).
    seed : the dataset's, so that all its comparisons have the same resamples.
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
    pairs = np.array(list(itertools.combinations(range(len(names)), 2)))
    drawn = {"units": units, "confidence": confidence}
    rows: list[dict] = []
    for metric in metrics:
        values = np.array([family.values[metric] for family in families])
        if metric_of(metric).of_gaps:
            blocks = iter_resamples(units.count, resamples, seed)
            found = paired_gaps(values, _gathered(families, metric, blocks), pairs, **drawn)
        else:
            # nothing is left without the only unit
            left_out = np.full((len(names), 1), np.nan)
            if units.count > 1:
                left_out = _gathered(families, metric, iter_jackknife(units.count, PARTS))
            found = paired_by_jackknife(
                values, left_out, pairs, resamples=resamples, seed=seed, **drawn
            )
        rows += [
            {
                "metric": metric,
                "higher_is_better": metric_of(metric).higher_is_better,
                "backbone_a": names[a],
                "backbone_b": names[b],
                **{name: column[place].item() for name, column in vars(found).items()},
                "p_mcnemar": _mcnemar(
                    metric,
                    units,
                    predictions_by_backbone[names[a]],
                    predictions_by_backbone[names[b]],
                ),
                **common,
            }
            for place, (a, b) in enumerate(pairs.tolist())
        ]
    return rows


@dataclass(frozen=True)
class _Family:
    """Values of some metrics on the whole test set, and what has them on resamples."""

    values: dict[str, float]
    parts: list[tuple]  # (family, its metrics)

    def replicates(self, block: Resamples, metric: str) -> np.ndarray:
        """(B,) one of the metrics."""
        family = next(family for family, metrics in self.parts if metric in metrics)
        return family.replicates(block, [metric])[metric]


def _family(
    one: Predictions, units: Units, metrics: list[str], calibration: dict | None
) -> _Family:
    of_scores = [metric for metric in metrics if metric not in CALIBRATION]
    values, parts = {}, []
    if of_scores:
        evaluated = one.evaluate()
        values |= {metric: float(evaluated[metric]) for metric in of_scores}
        parts.append((one.family(units.index), of_scores))
    if len(of_scores) < len(metrics):
        from permafrost.statistics.predictions.calibration import calibration_of

        judged = calibration_of(one, units.index, calibration)
        wanted = [metric for metric in metrics if metric in CALIBRATION]
        values |= judged.evaluate(wanted)
        parts.append((judged, wanted))
    return _Family(values, parts)


def _gathered(families: list[_Family], metric: str, blocks: Iterable[Resamples]) -> np.ndarray:
    """(K, B) a metric of each family; every block of resamples serves all of them."""
    parts = [
        np.stack([family.replicates(block, metric) for family in families]) for block in blocks
    ]
    return np.concatenate(parts, axis=1)


def _mcnemar(metric: str, units: Units, a: Predictions, b: Predictions) -> float | None:
    if metric != "accuracy" or units.kind != "image":
        return None
    # McNemar's test is of one pair of answers to each image, not of a mean over answers
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
    known = [name for name in known if metric_of(name).better]
    if metric is None:
        return primary_metric(predictions.task)
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
