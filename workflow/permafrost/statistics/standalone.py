"""Intervals for an evaluation that stands outside of the pipeline: files in, figures out."""

from __future__ import annotations

import math

import numpy as np

from .intervals import check_method, percentile_interval, reflected
from .p_values import bootstrap_p_value
from .resamples import draw_resamples
from .units import Units


def score_rows(
    evaluation, units: Units, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> list[dict]:
    """Value and interval of every figure of an evaluation.

    Parameters
    ----------
    evaluation : has ``values``, a mapping of (metric, class) to a number, and ``replicates``, which
        takes (N, B) how often each item is in each resample and returns (B,) for each of these.
    units : which of the items (images, blocks) are resampled together.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, n_undefined``; numbers that are
    undefined are None. A single unit cannot be resampled: without bounds.
    """
    check_method("percentile", confidence)
    bounds: dict = {}
    if units.count > 1:
        drawn = draw_resamples(units.count, resamples, seed)
        bounds = evaluation.replicates(drawn.counts[units.index])
    rows = []
    for (metric, label), value in evaluation.values.items():
        replicates = bounds.get((metric, label), np.empty(0))
        lower, upper = percentile_interval(replicates, confidence)
        row = {"metric": metric, "class": label, "value": value, "lower": lower, "upper": upper}
        row = {name: _defined(cell) for name, cell in row.items()}
        row["n_undefined"] = int(np.count_nonzero(np.isnan(replicates)))
        rows.append(row)
    return rows


def difference_rows(
    one,
    other,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    mirrored: bool = False,
) -> list[dict]:
    """Differences of two evaluations of the same items, on the same resamples.

    Parameters
    ----------
    one, other : evaluations as `score_rows` takes them; figures that only one has are left out.
    resamples : 0 gives rows without bounds.
    mirrored : take the bounds and p-values from replicates `intervals.reflected` at the difference.

    Returns
    -------
    Rows ``metric, class, value, against, difference (value - against), lower, upper, p_value,
    n_undefined, resamples``; the p-values are those of single figures, not adjusted for their number.
    """
    values, others = one.values, other.values
    first: dict = {}
    second: dict = {}
    if units.count > 1 and resamples:
        drawn = draw_resamples(units.count, resamples, seed).counts[units.index]
        first, second = one.replicates(drawn), other.replicates(drawn)
    rows = []
    for name, value in values.items():
        if name not in others:
            continue
        moved = first[name] - second[name] if first else np.empty(0)
        if mirrored:
            moved = reflected(value - others[name], moved)
        lower, upper = percentile_interval(moved, confidence)
        row = {
            "metric": name[0],
            "class": name[1],
            "value": value,
            "against": others[name],
            "difference": value - others[name],
            "lower": lower,
            "upper": upper,
            "p_value": bootstrap_p_value(moved),
        }
        row = {key: _defined(cell) for key, cell in row.items()}
        row["n_undefined"] = int(np.count_nonzero(np.isnan(moved)))
        row["resamples"] = len(moved)
        rows.append(row)
    return rows


def _defined(value):
    return None if isinstance(value, float) and math.isnan(value) else value
