"""The summary: means over parts of the precision and recall tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.accumulate import Curves
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.inputs.tables import Categories

# area ranges of pycocotools' fixed summary
_STRICT_AREAS = ("small", "medium", "large")
_STRICT_CAP, _STRICT_KEYPOINT_CAP = 100, 20
_FREQUENCIES = ("r", "c", "f")


@dataclass(frozen=True)
class Statistic:
    """A number of the summary: a mean over all categories with truths.

    Attributes
    ----------
    name : unique in a summary, e.g. ``AP50``, ``AR@10``, ``ARs``.
    of : ``precision`` or ``recall``.
    threshold : one IoU threshold, None for all.
    area : name of the area range.
    cap : largest number of detections per image and category.
    frequency : LVIS: the group of categories, None for all.
    group, members : a group of categories by name, and the positions of its categories, None for all.
    """

    name: str
    of: str
    threshold: float | None
    area: str
    cap: int
    frequency: str | None = None
    group: str | None = None
    members: tuple[int, ...] | None = None


def of_groups(summary, groups: dict[str, np.ndarray]) -> list[Statistic]:
    """Every statistic of a summary for every group of categories, group by group.

    The value of a group is the unweighted mean over its categories with truths in the area range: the
    summary of an evaluation of these categories alone.

    Parameters
    ----------
    groups : result of `categories.find_groups`.
    """
    return [
        replace(statistic, group=name, members=tuple(places.tolist()))
        for name, places in groups.items()
        for statistic in summary
        if statistic.frequency is None
    ]


def statistics(iou_type: str, axes: Axes, *, strict: bool, lvis: bool) -> list[Statistic]:
    """The statistics of a kernel's summary: 12, or 10 for keypoints, 13 for LVIS.

    Strict: pycocotools' fixed list for any axes. Corrected: one number per evaluated area range and
    cap, in the same order, with AP at the largest cap.
    """
    largest = axes.max_dets[-1]
    if lvis:
        return _lvis(axes, largest, strict)
    keypoints = iou_type == "keypoints"
    if strict and keypoints:
        return _list(("medium", "large"), _STRICT_KEYPOINT_CAP, _STRICT_KEYPOINT_CAP, None)
    if strict:
        if len(axes.max_dets) < 3:
            raise PermafrostError(
                "strict mode summarises three caps on detections, as pycocotools does",
                where="max_dets",
                remedy="give three caps, or use the corrected mode",
            )
        return _list(_STRICT_AREAS, _STRICT_CAP, axes.max_dets[2], axes.max_dets[:3])
    areas = tuple(name for name in axes.area_names if name != "all")
    return _list(areas, largest, largest, None if keypoints else axes.max_dets)


def _list(areas, headline: int, cap: int, caps) -> list[Statistic]:
    """AP and its variants, AR at each cap (or at the thresholds, for keypoints) and its variants."""
    out = [
        Statistic("AP", "precision", None, "all", headline),
        Statistic("AP50", "precision", 0.5, "all", cap),
        Statistic("AP75", "precision", 0.75, "all", cap),
        *(Statistic(f"AP{_short(area)}", "precision", None, area, cap) for area in areas),
    ]
    if caps is None:
        out += [
            Statistic("AR", "recall", None, "all", cap),
            Statistic("AR50", "recall", 0.5, "all", cap),
            Statistic("AR75", "recall", 0.75, "all", cap),
        ]
    else:
        out += [Statistic(f"AR@{each}", "recall", None, "all", each) for each in caps]
    return out + [Statistic(f"AR{_short(area)}", "recall", None, area, cap) for area in areas]


def _lvis(axes: Axes, cap: int, strict: bool) -> list[Statistic]:
    areas = tuple(name for name in axes.area_names if name != "all")
    areas = _STRICT_AREAS if strict else areas
    return [
        *_list(areas, cap, cap, None)[: 3 + len(areas)],
        *(Statistic(f"AP{f}", "precision", None, "all", cap, f) for f in _FREQUENCIES),
        Statistic(f"AR@{cap}", "recall", None, "all", cap),
        *(Statistic(f"AR{_short(area)}@{cap}", "recall", None, area, cap) for area in areas),
    ]


def _short(area: str) -> str:
    return area[0] if area in _STRICT_AREAS else f"_{area}"


def summarise(
    statistic: Statistic, curves: Curves, axes: Axes, categories: Categories | None = None
) -> float:
    """One number in [0, 1]; -1 without truths; NaN if its threshold, area range or
    cap was not evaluated, or its categories (None) were pooled."""
    values = curves.precision if statistic.of == "precision" else curves.recall
    # categories, areas and caps are the last three axes of both
    picked = pick(statistic, axes)
    if picked is None:
        return float("nan")
    threshold, area, cap = picked
    values = values[..., area, cap]
    if threshold is not None:
        values = values[threshold : threshold + 1]
    if statistic.frequency is not None:
        if categories is None:
            return float("nan")
        group = [i for i, f in enumerate(categories.frequencies) if f == statistic.frequency]
        values = values[..., np.array(group, np.int64)]
    if statistic.members is not None:
        if categories is None:
            return float("nan")
        values = values[..., np.array(statistic.members, np.int64)]
    # flat and in this order, so that NumPy's pairwise sum equals pycocotools'
    values = values[values > -1]
    return float(np.mean(values)) if values.size else -1.0


def pick(statistic: Statistic, axes: Axes) -> tuple[int | None, int, int] | None:
    """Positions of the threshold (None: all), area range and cap; None if not evaluated."""
    threshold = None
    if statistic.threshold is not None:
        found = np.flatnonzero(axes.thresholds == statistic.threshold)
        if not found.size:
            return None
        threshold = int(found[0])
    if statistic.area not in axes.area_names or statistic.cap not in axes.max_dets:
        return None
    return threshold, axes.area_names.index(statistic.area), axes.max_dets.index(statistic.cap)


def line(statistic: Statistic, value: float, axes: Axes) -> str:
    """A line of the summary in pycocotools' format; -1 also if the threshold, range or cap was not evaluated."""
    value = -1.0 if np.isnan(value) else value
    title = "Average Precision" if statistic.of == "precision" else "Average Recall"
    short = "(AP)" if statistic.of == "precision" else "(AR)"
    if statistic.threshold is None:
        iou = f"{axes.thresholds[0]:0.2f}:{axes.thresholds[-1]:0.2f}"
    else:
        iou = f"{statistic.threshold:0.2f}"
    group = "" if statistic.frequency is None else f" frequency={statistic.frequency}"
    return (
        f" {title:<18} {short} @[ IoU={iou:<9} | area={statistic.area:>6s} |"
        f" maxDets={statistic.cap:>3d}{group} ] = {value:0.3f}"
    )
