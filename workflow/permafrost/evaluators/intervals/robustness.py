"""Intervals of mPC and rPC: what detection scores keep outside the conditions of a baseline."""

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
    n_undefined, gates``; ``undefined`` are the slices that the mean leaves out, see `Robustness`.

    All slices move together, on resamples of all images: a group may have images in more than one slice.
    A resample in which a slice that counts has nothing to find is left out (``n_undefined``).

    Parameters
    ----------
    parts : of `evaluators.detection.slices`.
    units : of all images.
    method : as of `detection.detection_rows`; cut at 0.
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
    """mPC and rPC of every metric along one axis, as `replicated.Replicated` takes them.

    Parameters
    ----------
    found : of the axis.
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
        """(B,) of every figure; NaN where a slice that counts is undefined."""
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
        """Those of all classes of the slices that count, and for rPC of the baseline."""
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
        """Places of the slices that the mean is over."""
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
