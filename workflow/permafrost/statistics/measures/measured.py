"""Intervals of feature metrics, from the effect of each unit."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.metrics.representation.measure import Measure
from permafrost.statistics.resampling.intervals import expanded, percentile_interval
from permafrost.statistics.resampling.jackknife import spread_of
from permafrost.statistics.resampling.resamples import iter_resamples
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

ONE_UNIT = "no interval: a single {} does not show how far others would move it"
FORMS = {"linear": "jackknife_t", "log": "jackknife_log", "count": "percentile"}


def measured[Name: Hashable](
    measures: Mapping[Name, Measure], units: Units, bootstrap: dict, *, dataset: str
) -> dict[Name, dict]:
    """Each measure with its interval, keyed as in `measures`.

    With the terms T_u of U units about their mean, Student's t on the standard error ::

        error^2 = (U / (U - 1))^3  sum_u T_u^2

    on the measure's scale, with the degrees of freedom of `resampling.jackknife`. A term is a
    derivative at the whole sample. Multiplied by U / (U - 1) it is the change of a mean when the
    unit is left out; second moments, as in spectra, need this factor once more. Counts have
    percentiles of resamples, expanded for few units.

    Parameters
    ----------
    units : the units of the measures' terms.
    bootstrap : ``resamples``, ``confidence`` and ``seed``; with the dataset's name it determines
        the resamples, the same for all backbones.

    Returns
    -------
    Dictionaries ``value, lower, upper, confidence, method, resamples, n_undefined, unit, n_units,
    bootstrap_seed, notes``. The interval is NaN if the measure is undefined or there is only one
    unit; the notes then give the reason.
    """
    seed = derive_seed("bootstrap", dataset, bootstrap["seed"])
    counted = {name: one for name, one in measures.items() if one.scale == "count"}
    replicates = _replicates(counted, units, bootstrap["resamples"], seed)
    common = {
        "confidence": bootstrap["confidence"],
        "unit": units.kind,
        "n_units": units.count,
        "bootstrap_seed": bootstrap["seed"],
    }
    rows = {}
    for name, measure in measures.items():
        if name in replicates:
            ends = _of_counts(replicates[name], units, bootstrap["confidence"])
            number = bootstrap["resamples"]
        else:
            ends, number = _of_terms(measure, units, bootstrap["confidence"]), units.count
        notes = measure.notes
        if units.count == 1 and "undefined" not in notes:
            notes = {**notes, "interval": ONE_UNIT.format(units.kind)}
        rows[name] = {
            "value": measure.value,
            "lower": ends[0],
            "upper": ends[1],
            "method": FORMS[measure.scale],
            "resamples": number,
            "n_undefined": 0 if measure.terms is not None else number,
            "notes": notes,
            **common,
        }
    return rows


def _of_terms(measure: Measure, units: Units, confidence: float) -> tuple[float, float]:
    if measure.terms is None or units.count < 2:
        return math.nan, math.nan
    terms, sizes = measure.terms[:, 0], np.bincount(units.index)
    without = -terms * (units.count / (units.count - 1)) ** 2
    spread = spread_of(0.0, without, sizes, scale=np.float64(0), centred=True)
    half = float(t_quantile(confidence, spread.df)) * float(spread.error)
    if measure.scale == "log":
        factor = math.exp(min(half, 700.0))
        return measure.value / factor, measure.value * factor
    return measure.value - half, measure.value + half


def _replicates(measures: Mapping, units: Units, count: int, seed: int) -> dict:
    replicates = {name: np.full(count, np.nan) for name in measures}
    if not measures or units.count == 1:
        return replicates
    first = 0
    for block in iter_resamples(units.count, count, seed):
        part = slice(first, first + len(block))
        for name, measure in measures.items():
            replicates[name][part] = measure.replicates(block.counts)
        first = part.stop
    return replicates


def _of_counts(replicates: np.ndarray, units: Units, confidence: float) -> tuple[float, float]:
    return percentile_interval(expanded(replicates, units.count, confidence), confidence)
