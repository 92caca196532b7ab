"""Intervals for every metric of a test set, by resampling its independent units."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.tasks import LOWER_IS_BETTER, OF_CURVES, OF_GAPS, PRIMARY, UNRANKED

from .intervals import (
    basic_interval,
    basic_square_interval,
    bca_interval,
    check_method,
    percentile_interval,
)
from .predictions import Predictions
from .resamples import iter_jackknife, iter_resamples
from .units import find_units


def bootstrap_scores(
    predictions: Predictions,
    *,
    resamples: int = 200,
    confidence: float = 0.95,
    seed: int,
    method: str = "percentile",
    calibration: dict | None = None,
) -> list[dict]:
    """Value and interval of every metric of a task.

    Parameters
    ----------
    predictions : of one backbone on a test set; units are its groups where known, else its images.
    seed : shared by all backbones of a dataset, so that they are scored on the same resamples.
    method : ``percentile``, or ``bca`` (an interval per metric that has none falls back to
        percentile, and its row's ``method`` says so). Whatever the method, metrics `OF_CURVES` have
        ``basic`` intervals (see `intervals.reflected`) and those `OF_GAPS` have ``basic_square``
        ones (`intervals.reflected_square`).
    calibration : options of `calibration.Calibration`, for predictions with probabilities; None
        leaves its metrics out, and changes nothing in the rows of the others.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, confidence, method, resamples,
    n_undefined, unit, n_units, n_test, primary, higher_is_better (None where neither more nor
    less is), bootstrap_seed``; those of `calibration` have ``flags`` too, what limits this one metric.
    The value is that of the whole test set. Resamples on which a metric is undefined (such as the
    recall of a class that was not drawn) do not enter its interval and are counted in
    ``n_undefined``.
    """
    check_method(method, confidence)
    # evaluating comes first: it checks the arrays
    values = predictions.evaluate()
    units = find_units(
        len(predictions), sample_ids=predictions.sample_ids, groups=predictions.groups
    )
    family = predictions.family(units.index)
    judged = None
    if calibration is not None:
        from .calibration import Joined, calibration_of

        judged = calibration_of(predictions, units.index, calibration)
        values, family = {**values, **judged.values}, Joined(family, judged)
    replicates = gather(family, iter_resamples(units.count, resamples, seed))
    left_out: dict[str, np.ndarray] = {}
    if method == "bca":
        left_out = gather(family, iter_jackknife(units.count), set(values) - OF_CURVES - OF_GAPS)
    common = {
        "confidence": confidence,
        "resamples": resamples,
        "unit": units.kind,
        "n_units": units.count,
        "n_test": len(predictions),
        "bootstrap_seed": seed,
    }
    rows = []
    for metric, value in values.items():
        for column, name in _columns(value, predictions.classes):
            pick = ... if column is None else column
            row = _interval(
                float(np.asarray(value)[pick]),
                replicates[metric][pick],
                left_out[metric][pick] if metric in left_out else None,
                confidence,
                kind=_kind(metric),
            )
            row = {"metric": metric, "class": name, **row, **common}
            row["primary"] = metric == PRIMARY[predictions.task]
            row["higher_is_better"] = None if metric in UNRANKED else metric not in LOWER_IS_BETTER
            if judged is not None and (flags := judged.flags(metric)):
                row["flags"] = flags
            rows.append(row)
    return rows


def gather(family, blocks, metrics=None) -> dict[str, np.ndarray]:
    """Replicates on blocks of resamples, joined; see the families."""
    parts = [family.replicates(resamples, metrics) for resamples in blocks]
    return {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}


def binomial_accuracy_interval(
    correct: int, n_images: int, *, resamples: int = 200, confidence: float = 0.95, seed
) -> tuple[float, float]:
    """Percentile interval of accuracy from its law on resamples, without drawing them.

    When images are the units, the number of right answers in a resample is Binomial(N, accuracy),
    so it can be drawn itself. The interval has the same distribution as that of
    `bootstrap_scores`, but it comes from other resamples: it does not pair with other backbones
    and says nothing of groups.
    """
    check_method("percentile", confidence)
    generator = np.random.Generator(np.random.PCG64(seed))
    drawn = generator.binomial(n_images, correct / n_images, size=resamples)
    return percentile_interval(drawn / n_images, confidence)


def _columns(value, classes):
    if np.ndim(value) == 0:
        return [(None, None)]
    return list(enumerate(classes))


def _kind(metric: str):
    """The interval that a metric has whatever the method, and its name; or None."""
    if metric in OF_CURVES:
        return basic_interval, "basic"
    return (basic_square_interval, "basic_square") if metric in OF_GAPS else None


def _interval(value: float, replicates, left_out, confidence: float, *, kind) -> dict:
    bounds, method = None, "percentile"
    if kind is not None:
        interval, method = kind
        bounds = interval(value, replicates, confidence)
    elif left_out is not None:
        bounds, method = bca_interval(value, replicates, left_out, confidence), "bca"
    if bounds is None:
        bounds, method = percentile_interval(replicates, confidence), "percentile"
    return {
        "value": value,
        "lower": bounds[0],
        "upper": bounds[1],
        "method": method,
        "n_undefined": int(np.count_nonzero(np.isnan(replicates))),
    }
