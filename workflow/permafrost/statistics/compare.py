"""Paired comparison of backbones: differences of a metric on the same resamples of one test set.

Of metrics `OF_CURVES` the replicates of a difference are mirrored at it, as they are for the interval
of one score (`intervals.reflected`): the bias of a difference is the difference of two biases, which
cancel for backbones that are alike and not otherwise. The p-value counts the mirrored replicates
beyond 0. That is how often a replicate strays from the difference by more than the difference itself,
so that it is the test of no difference with the replicates moved to where there is none, and at the
same time what inverts the interval: p <= 0.05 where the 95 % interval leaves 0 out.
"""

from __future__ import annotations

import itertools

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.metrics.tasks import OF_CURVES, PRIMARY, overall_metrics

from .intervals import check_method, percentile_interval, reflected
from .p_values import bootstrap_p_value, holm, mcnemar_p_value
from .predictions import Predictions
from .resamples import iter_resamples
from .units import Units, find_units


def compare(
    predictions_by_backbone: dict[str, Predictions],
    *,
    metric: str | None = None,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int,
) -> list[dict]:
    """Differences between all pairs of backbones, each with interval and p-values.

    Parameters
    ----------
    predictions_by_backbone : of one dataset, probe and seed.
    metric : an overall metric of the task; default its primary one.
    resamples : see `p_values.bootstrap_p_value` for why 200 are too few here.
    seed : the dataset's; with that and the number of resamples of `bootstrap_scores`, the very
        resamples of the intervals.

    Returns
    -------
    Rows ``metric, backbone_a, backbone_b, difference (a - b), lower, upper, p_value, p_holm,
    p_mcnemar, n_undefined, confidence, resamples, unit, n_units, n_test, bootstrap_seed``, for
    pairs in the order of the names. The family of ``p_holm`` is all pairs of this call.
    With a single unit, which every resample repeats, p-values are NaN.
    ``p_mcnemar`` (unadjusted) is given for accuracy where images are the units, else None.
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
    metric = _known_metric(metric, first)
    units = find_units(len(first), sample_ids=first.sample_ids, groups=first.groups)
    values, replicates = _evaluate_all(
        [predictions_by_backbone[name] for name in names], metric, units, resamples, seed
    )
    rows = [
        {
            "metric": metric,
            "backbone_a": names[a],
            "backbone_b": names[b],
            **_difference(
                values[a] - values[b],
                replicates[a] - replicates[b],
                confidence,
                basic=metric in OF_CURVES,
                testable=units.count > 1,
            ),
            "p_mcnemar": _mcnemar(
                metric, units, predictions_by_backbone[names[a]], predictions_by_backbone[names[b]]
            ),
            "confidence": confidence,
            "resamples": resamples,
            "unit": units.kind,
            "n_units": units.count,
            "n_test": len(first),
            "bootstrap_seed": seed,
        }
        for a, b in itertools.combinations(range(len(names)), 2)
    ]
    for row, adjusted in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        row["p_holm"] = float(adjusted)
    return rows


def _evaluate_all(
    predictions: list[Predictions], metric: str, units: Units, resamples: int, seed
) -> tuple[list[float], list[np.ndarray]]:
    """Value and (B,) replicates of `metric` for each; every block of resamples serves all."""
    values = [float(one.evaluate()[metric]) for one in predictions]
    families = [one.family(units.index) for one in predictions]
    blocks = [
        [family.replicates(block, [metric])[metric] for family in families]
        for block in iter_resamples(units.count, resamples, seed)
    ]
    return values, [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _difference(
    difference: float, replicates: np.ndarray, confidence: float, *, basic: bool, testable: bool
) -> dict:
    if basic:
        replicates = reflected(difference, replicates)
    lower, upper = percentile_interval(replicates, confidence)
    return {
        "difference": difference,
        "lower": lower,
        "upper": upper,
        "p_value": bootstrap_p_value(replicates) if testable else float("nan"),
        "n_undefined": int(np.count_nonzero(np.isnan(replicates))),
    }


def _mcnemar(metric: str, units: Units, a: Predictions, b: Predictions) -> float | None:
    if metric != "accuracy" or units.kind != "image":
        return None
    right_a, right_b = a.answers == a.truth, b.answers == b.truth
    return mcnemar_p_value(
        int(np.count_nonzero(right_a & ~right_b)), int(np.count_nonzero(right_b & ~right_a))
    )


def _known_metric(metric: str | None, predictions: Predictions) -> str:
    known = overall_metrics(
        predictions.task, len(predictions.classes), boundary=predictions.boundary
    )
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
