"""Intervals of mPC and rPC: what detection scores keep outside the conditions of a baseline."""

from __future__ import annotations

import math

import numpy as np

from permafrost.metrics.detection.slices import Slice, against_baseline, robustness

from .detection import DetectionScores, check_interval
from .intervals import percentile_interval, reflected
from .resamples import draw_resamples
from .units import Units


def robustness_rows(
    parts: list[Slice],
    baseline: str,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
    method: str = "basic",
) -> list[dict]:
    """Rows ``axis, baseline, metric, measure (mPC or rPC), value, lower, upper, slices, undefined,
    n_undefined``; ``undefined`` are the slices that the mean leaves out, see `Robustness`.

    All slices move together, on resamples of all images: a group may have images in several slices.
    A resample in which a slice that counts has nothing to find is left out (``n_undefined``).

    Parameters
    ----------
    parts : of `metrics.detection.slices`.
    units : of all images.
    method : ``basic``, cut at 0, or ``percentile``.
    """
    check_interval(method)
    found = robustness(parts, baseline)
    moved: dict = {}
    if units.count > 1 and resamples:
        counts = draw_resamples(units.count, resamples, seed).counts[units.index]
        for axis, own in against_baseline(parts, baseline).items():
            moved[axis] = {
                part.label: DetectionScores(part.evaluation, classes=False).replicates(
                    counts[part.chosen]
                )
                for part in own
            }
    rows = []
    for item in found:
        drawn = _replicates(item, moved.get(item.axis, {}))
        for measure, value, each in zip(("mPC", "rPC"), (item.mpc, item.rpc), drawn, strict=True):
            turned = reflected(value, each) if method == "basic" else each
            lower, upper = percentile_interval(turned, confidence)
            bounds = {"value": value, "lower": max(lower, 0.0), "upper": upper}
            if math.isnan(value) or math.isnan(lower):
                bounds = {"value": value, "lower": math.nan, "upper": math.nan}
            rows.append(
                {
                    "axis": item.axis,
                    "baseline": item.baseline,
                    "metric": item.metric,
                    "measure": measure,
                    **{key: None if cell != cell else cell for key, cell in bounds.items()},
                    "slices": item.slices,
                    "undefined": list(item.undefined),
                    "n_undefined": int(np.count_nonzero(np.isnan(each))),
                }
            )
    return rows


def _replicates(item, moved: dict) -> tuple[np.ndarray, np.ndarray]:
    """(B,) mPC and rPC on the resamples, NaN where a slice is undefined; empty without any."""
    others = [
        drawn[item.metric, None]
        for label, drawn in moved.items()
        if label != item.baseline and label not in item.undefined
    ]
    if not others:
        return np.empty(0), np.empty(0)
    mpc = np.mean(others, axis=0)
    base = moved[item.baseline][item.metric, None]
    return mpc, np.divide(mpc, base, out=np.full(len(mpc), np.nan), where=base > 0)
