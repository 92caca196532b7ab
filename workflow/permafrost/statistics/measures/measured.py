"""Intervals of measures of features: what they are on resamples of the units that were measured."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np

from permafrost.core.identity import derive_seed
from permafrost.metrics.representation.measure import Measure
from permafrost.statistics.resampling.intervals import percentile_interval
from permafrost.statistics.resampling.resamples import iter_resamples
from permafrost.statistics.resampling.units import Units

ONE_UNIT = "no interval: a single {} cannot be resampled"


def measured[Name: Hashable](
    measures: Mapping[Name, Measure], units: Units, bootstrap: dict, *, dataset: str
) -> dict[Name, dict]:
    """Each measure with its interval, by the name it has in `measures`.

    Parameters
    ----------
    units : the units that the measures' terms are of.
    bootstrap : ``resamples``, ``confidence`` and ``seed``; with the dataset's name it fixes the
        resamples, so that those of all backbones are the same.

    Returns
    -------
    Dictionaries ``value, lower, upper, confidence, method, resamples, n_undefined, unit, n_units,
    bootstrap_seed, notes``. The interval is NaN where the measure is undefined, and where there is one
    unit only; the notes then say why.
    """
    count = bootstrap["resamples"]
    replicates = {name: np.full(count, np.nan) for name in measures}
    if units.count > 1:
        seed = derive_seed("bootstrap", dataset, bootstrap["seed"])
        first = 0
        for block in iter_resamples(units.count, count, seed):
            part = slice(first, first + len(block))
            for name, measure in measures.items():
                replicates[name][part] = measure.replicates(block.counts)
            first = part.stop
    common = {
        "confidence": bootstrap["confidence"],
        "method": "percentile",
        "resamples": count,
        "unit": units.kind,
        "n_units": units.count,
        "bootstrap_seed": bootstrap["seed"],
    }
    return {
        name: {**_interval(measures[name], replicates[name], units, common["confidence"]), **common}
        for name in measures
    }


def _interval(measure: Measure, replicates: np.ndarray, units: Units, confidence: float) -> dict:
    lower, upper = percentile_interval(replicates, confidence)
    notes = measure.notes
    if units.count == 1 and "undefined" not in notes:
        notes = {**notes, "interval": ONE_UNIT.format(units.kind)}
    return {
        "value": measure.value,
        "lower": lower,
        "upper": upper,
        "n_undefined": int(np.count_nonzero(np.isnan(replicates))),
        "notes": notes,
    }
