"""Intervals of mPC and rPC: how much of a detection score remains outside a baseline condition."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from permafrost.evaluators.detection.slices import Robustness, Slice, against_baseline, robustness
from permafrost.evaluators.intervals.detection import DetectionScores, check_interval
from permafrost.evaluators.intervals.replicated import Name, Replicated
from permafrost.evaluators.intervals.standalone import JACKKNIFE, defined, gate_of
from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.intervals import percentile_interval, reflected
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import Units

MEASURES = ("mPC", "rPC")


def robustness_rows(
    parts: list[Slice],
    baseline: str,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = JACKKNIFE,
) -> list[dict]:
    """Rows ``axis, baseline, metric, measure (mPC or rPC), value, lower, upper, slices, undefined,
    n_undefined, gates``; ``undefined`` lists the slices excluded from the mean, see `Robustness`.

    Resamples draw from all images and evaluate all slices together, because a group may have images
    in several slices. A resample in which a slice of the mean has no truth is dropped and counted
    (``n_undefined``).

    Parameters
    ----------
    parts : from `evaluators.detection.slices`.
    units : of all images.
    method : as in `detection.detection_rows`; bounds are truncated at 0.
    """
    check_interval(method, confidence)
    found = robustness(parts, baseline)
    rows = []
    for axis, slices in against_baseline(parts, baseline).items():
        kept = _Kept([item for item in found if item.axis == axis], slices)
        carriers = kept.carriers(units) if resamples else {}
        bounds: dict = {}
        drawn: dict = {}
        if units.count > 1 and resamples and method == JACKKNIFE:
            replicated = Replicated(kept, units, resamples=resamples, seed=seed)
            drawn = replicated.drawn
            bounds = replicated.intervals(carriers, confidence, dict.fromkeys(kept.metrics, "t"))
        elif units.count > 1 and resamples:
            counts = draw_resamples(units.count, resamples, seed).counts[units.index]
            drawn = kept.replicates(counts)
            for name, moved in drawn.items():
                turned = reflected(kept.values[name], moved) if method == "basic" else moved
                bounds[name] = percentile_interval(turned, confidence)
        for name, value in kept.values.items():
            rows.append(_row(kept, name, value, bounds, drawn, carriers))
    return rows


class _Kept:
    """mPC and rPC of every metric along one axis, as an evaluation for `replicated.Replicated`.

    Parameters
    ----------
    found : results of the axis.
    slices : its slices, the baseline first.
    """

    def __init__(self, found: list[Robustness], slices: list[Slice]) -> None:
        self.metrics = {item.metric: item for item in found}
        self.slices = slices
        self.scores = [DetectionScores(part.evaluation, classes=False) for part in slices]

    @cached_property
    def values(self) -> dict[Name, float]:
        return {
            (metric, measure): value
            for metric, item in self.metrics.items()
            for measure, value in zip(MEASURES, (item.mpc, item.rpc), strict=True)
        }

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) replicates of every score; NaN if a slice of the mean is undefined."""
        moved = [
            scores.replicates(counts[part.chosen])
            for scores, part in zip(self.scores, self.slices, strict=True)
        ]
        found = {}
        for metric, item in self.metrics.items():
            drawn = [moved[place][metric, None] for place in self._counting(item)]
            mpc = np.mean(drawn, axis=0) if drawn else np.full(counts.shape[1], np.nan)
            base = moved[0][metric, None]
            found[metric, "mPC"] = mpc
            found[metric, "rPC"] = np.divide(
                mpc, base, out=np.full(len(mpc), np.nan), where=base > 0
            )
        return found

    def carriers(self, units: Units) -> dict[Name, Carriers]:
        """Carriers of all classes of the slices in the mean, and for rPC of the baseline."""
        own = [
            scores.carriers(replace(units, index=units.index[part.chosen]))
            for scores, part in zip(self.scores, self.slices, strict=True)
        ]
        found = {}
        for metric, item in self.metrics.items():
            for measure, first in zip(MEASURES, ([], [0]), strict=True):
                each = [
                    (self.slices[place].label, own[place][metric, None])
                    for place in [*first, *self._counting(item)]
                ]
                labels = [_label(name, slice_) for slice_, one in each for name in one.labels]
                counts = [count for _, one in each for count in one.counts]
                has = own[0][metric, None].has
                found[metric, measure] = Carriers.of(labels, counts, units, has=has)
        return found

    def _counting(self, item: Robustness) -> list[int]:
        """Indices of the slices in the mean."""
        return [
            place
            for place, part in enumerate(self.slices)
            if part.label not in (item.baseline, *item.undefined)
        ]


def _label(name: str | None, label: str) -> str:
    return f"{name} in {label}" if name is not None else label


def _row(kept: _Kept, name: Name, value: float, bounds, drawn, carriers) -> dict:
    metric, measure = name
    item = kept.metrics[metric]
    lower, upper = bounds.get(name, (math.nan, math.nan))
    if math.isnan(value) or math.isnan(lower):
        lower, upper = math.nan, math.nan
    cells = {"value": value, "lower": max(lower, 0.0) if lower == lower else lower, "upper": upper}
    cells = {key: defined(cell) for key, cell in cells.items()}
    return {
        "axis": item.axis,
        "baseline": item.baseline,
        "metric": metric,
        "measure": measure,
        **cells,
        "slices": item.slices,
        "undefined": list(item.undefined),
        "n_undefined": int(np.count_nonzero(np.isnan(drawn.get(name, np.empty(0))))),
        "gates": gate_of(carriers, name, cells["value"]),
    }
