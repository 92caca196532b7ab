"""Intervals for an evaluation that stands outside of the pipeline: files in, figures out."""

from __future__ import annotations

import math

import numpy as np

from .carriers import Carriers, Replicated
from .intervals import check_method
from .jackknife import PARTS
from .units import Units

# of the metrics that are no share in [0, 1], see `carriers.Replicated.intervals`
_FORMS = {"matched_distance": "log", "kappa": "signed"}


def score_rows(
    evaluation,
    units: Units,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    kind: str | None = None,
) -> list[dict]:
    """Value and interval of every figure of an evaluation.

    Parameters
    ----------
    evaluation : has ``values``, a mapping of (metric, class) to a number, and ``replicates``, which
        takes (N, B) how often each item is in each resample and returns (B,) for each of these. It may
        have ``means``, which figures each figure is the mean of, where it is one over classes; and
        ``truths``, class to (N,) how much truth each item holds of it.
    units : which of the items (images, blocks) are resampled together.
    resamples : 0 gives rows without bounds.
    kind : what a unit is called, where it is not what `units` say.

    Returns
    -------
    Rows ``metric, class (None for overall), value, lower, upper, n_undefined, gates``; numbers that are
    undefined are None. ``gates`` is why the interval is not to be trusted, ``few_units`` or ``one_unit``
    with the reason, or empty; with a single unit there are no bounds.
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


def carriers_of(evaluation, units: Units, kind: str | None = None) -> dict:
    """The `Carriers` of every figure: the units that alone have a value of it and, of a class with truth, hold some.

    A false alarm gives a class a value in many units, but what becomes of its truth is known of few. Of more
    than 200 units, those that `jackknife` leaves out together count as one.
    """
    parts = min(PARTS, units.count)
    own = (units.index % parts)[:, None] == np.arange(parts)
    found = evaluation.replicates(own.astype(np.uint8))
    held = {name: int(np.count_nonzero(~np.isnan(each))) for name, each in found.items()}
    for label, truths in getattr(evaluation, "truths", {}).items():
        if count := np.count_nonzero(np.bincount(units.index % parts, truths)):
            for name in held:
                if name[1] == label:
                    held[name] = min(held[name], count)
    means = getattr(evaluation, "means", {})
    return {
        name: Carriers.of(
            [label for _, label in means.get(name, [name])],
            [held[each] for each in means.get(name, [name])],
            units,
            kind=kind,
        )
        for name in evaluation.values
    }


def defined(value):
    """None in the place of NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value
