"""Intervals for evaluations outside the pipeline, from files to scores."""

from __future__ import annotations

import math

import numpy as np

from permafrost.evaluators.intervals.replicated import Name, Replicated, Scored, without_parts
from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.intervals import check_method, percentile_interval, reflected
from permafrost.statistics.resampling.jackknife import PARTS, part_sizes
from permafrost.statistics.resampling.p_values import bootstrap_p_value
from permafrost.statistics.resampling.paired import tested_pairs
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import Units

JACKKNIFE = "jackknife_t"
# metrics that are not shares in [0, 1], see `replicated.Replicated.intervals`
_FORMS = {
    "matched_distance": "log",
    "kappa": "signed",
    **dict.fromkeys(("count_mae", "count_rmse", "true_density", "found_density"), "log"),
    **dict.fromkeys(("count_bias", "density_bias"), "any"),
    "count_r2": "below_one",
}


def score_rows(
    evaluation: Scored,
    units: Units,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    kind: str | None = None,
) -> list[dict]:
    """Value and interval of every score of an evaluation.

    Parameters
    ----------
    evaluation : has ``values``, a mapping of (metric, class) to a number, and ``replicates``, which
        takes (N, B) counts of each item in each resample and returns (B,) for each of these.
        Optional: ``means``, the scores that each mean over classes averages; ``truths``, class to
        (N,) amounts of truth in each item.
    units : groups of items (images, blocks) that are resampled together.
    resamples : 0 gives rows without bounds.
    kind : name of a unit, if it differs from that of `units`.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, n_undefined, gates``; undefined
    numbers are None. ``gates`` is a warning that the interval is unreliable, ``few_units`` or
    ``one_unit`` with the reason, or empty. With a single unit there are no bounds.
    """
    check_method("auto", confidence)
    bounds: dict = {}
    gates: dict = {}
    lost: dict = {}
    if resamples:
        carriers = carriers_of(evaluation, units, kind)
        gates = {name: own.gate for name, own in carriers.items()}
    if resamples and units.count > 1:
        found = Replicated(evaluation, units, resamples=resamples, seed=seed)
        bounds = found.intervals(carriers, confidence, _FORMS)
        lost = {name: int(np.count_nonzero(np.isnan(each))) for name, each in found.drawn.items()}
    rows = []
    for (metric, label), value in evaluation.values.items():
        lower, upper = bounds.get((metric, label), (math.nan, math.nan))
        row = {"metric": metric, "class": label, "value": value, "lower": lower, "upper": upper}
        row = {name: defined(cell) for name, cell in row.items()}
        row["n_undefined"] = lost.get((metric, label), 0)
        row["gates"] = "" if row["value"] is None else gates.get((metric, label), "")
        rows.append(row)
    return rows


def carriers_of(evaluation: Scored, units: Units, kind: str | None = None) -> dict[Name, Carriers]:
    """The `Carriers` of every score: the units in which it is defined and, for a class with truth,
    that hold some of this truth.

    If the evaluation has ``carriers``, these are used. A false alarm defines a class score in many
    units, but only units with truth inform about its truth. With more than 200 units, those that
    `jackknife` leaves out together count as one.
    """
    if hasattr(evaluation, "carriers"):
        return evaluation.carriers(units)
    parts = min(PARTS, units.count)
    own = (units.index % parts)[:, None] == np.arange(parts)
    found = evaluation.replicates(own.astype(np.uint8))
    held = {name: int(np.count_nonzero(~np.isnan(each))) for name, each in found.items()}
    valued = {name: count > 0 for name, count in held.items()}
    in_means = dict(held)
    for label, truths in getattr(evaluation, "truths", {}).items():
        count = np.count_nonzero(np.bincount(units.index % parts, truths))
        for name in [name for name in held if name[1] == label]:
            in_means[name] = min(held[name], count)
            held[name] = in_means[name] if count else held[name]
    means = {name: [name] for name in held} | getattr(evaluation, "means", {})
    return {
        name: Carriers.of(
            [label for _, label in means[name]],
            [(held if each == name else in_means)[each] for each in means[name]],
            units,
            kind=kind,
            valued=[valued[each] for each in means[name]],
        )
        for name in evaluation.values
    }


def gate_of(carriers: dict[Name, Carriers], name: Name, value) -> str:
    """The warning about the interval of a score, or an empty string; `value` None: undefined."""
    return "" if value is None or name not in carriers else carriers[name].gate


def difference_rows(
    one: Scored,
    other: Scored,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = JACKKNIFE,
) -> list[dict]:
    """Differences of two evaluations of the same items.

    Parameters
    ----------
    one, other : evaluations as in `score_rows`; scores that only one of them has are excluded.
    resamples : 0 gives rows without bounds.
    method : ``jackknife_t`` tests a difference by Student's t on its standard error, see `paired`.
        ``percentile`` takes bounds and p-values from the differences on common resamples, ``basic``
        from these reflected at the difference (`intervals.reflected`).

    Returns
    -------
    Rows ``metric, class, value, against, difference (value - against), lower, upper, p_value,
    n_undefined, resamples (None if the p-value is not from resamples), gates``. The p-values are
    not adjusted for multiple comparisons.
    """
    names = [name for name in one.values if name in other.values]
    carriers = {}
    if resamples:
        both = [carriers_of(each, units) for each in (one, other)]
        carriers = {name: min((of[name] for of in both), key=lambda own: own.df) for name in names}
    found: dict = {}
    if units.count > 1 and resamples:
        if method == JACKKNIFE:
            found = _tested(one, other, names, units, carriers, confidence)
        else:
            counts = draw_resamples(units.count, resamples, seed).counts[units.index]
            found = _resampled(one, other, names, counts, confidence, method)
    rows = []
    for name in names:
        value, against = one.values[name], other.values[name]
        known = name in found and not carriers[name].alone
        lower, upper, p_value, undefined = found[name] if known else (math.nan,) * 3 + (0,)
        row = {
            "metric": name[0],
            "class": name[1],
            "value": value,
            "against": against,
            "difference": value - against,
            "lower": lower,
            "upper": upper,
            "p_value": p_value,
        }
        row = {key: defined(cell) for key, cell in row.items()}
        row["n_undefined"] = undefined
        row["resamples"] = resamples if known and method != JACKKNIFE else None
        row["gates"] = gate_of(carriers, name, row["difference"])
        rows.append(row)
    return rows


def _tested(
    one, other, names, units: Units, carriers: dict, confidence: float
) -> dict[Name, tuple]:
    """Lower bound, upper bound, p-value and 0 for every difference."""
    counts = without_parts(units)
    values, left_out = [], []
    for each in (one, other):
        without = each.replicates(counts)
        values.append([each.values[name] for name in names])
        left_out.append(np.stack([without[name] for name in names]))
    _, lower, upper, p_value, _ = tested_pairs(
        np.array(values),
        left_out,
        part_sizes(units),
        np.array([carriers[name].effective for name in names]),
        confidence,
        most_df=np.array([carriers[name].df for name in names]),
    )
    cells = zip(lower.tolist(), upper.tolist(), p_value.tolist(), [0] * len(names), strict=True)
    return dict(zip(names, cells, strict=True))


def _resampled(one, other, names, counts, confidence: float, method: str) -> dict[Name, tuple]:
    """Lower bound, upper bound, p-value and number of undefined resamples of every difference."""
    first, second = one.replicates(counts), other.replicates(counts)
    found = {}
    for name in names:
        moved = first[name] - second[name]
        if method == "basic":
            moved = reflected(one.values[name] - other.values[name], moved)
        undefined = int(np.count_nonzero(np.isnan(moved)))
        bounds = percentile_interval(moved, confidence)
        found[name] = (*bounds, bootstrap_p_value(moved), undefined)
    return found


def defined(value):
    """None instead of NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value
