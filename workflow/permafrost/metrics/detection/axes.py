"""The axes of an evaluation: IoU thresholds, recall grid, area ranges, caps on detections."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up

# as in pycocotools; the points of arange would be slightly larger
IOU_THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALL_GRID = np.linspace(0.0, 1.0, 101)

# bounds in square pixels, both inclusive: an area of 32 x 32 is small and medium
AREA_RANGES = {
    "all": (0.0, 1e5**2),
    "small": (0.0, 32.0**2),
    "medium": (32.0**2, 96.0**2),
    "large": (96.0**2, 1e5**2),
}
# small people have no reliable keypoints
KEYPOINT_AREA_RANGES = {name: AREA_RANGES[name] for name in ("all", "medium", "large")}

MAX_DETECTIONS = (1, 10, 100)
KEYPOINT_MAX_DETECTIONS = (20,)
LVIS_MAX_DETECTIONS = (300,)


@dataclass(frozen=True)
class Axes:
    """The axes of `precision` (T, R, K, A, M) and `recall` (T, K, A, M).

    Attributes
    ----------
    thresholds : (T,) IoU (or OKS) thresholds, in the user's order.
    recall_grid : (R,) recalls at which precision is read.
    area_names, areas : A names and the (A, 2) bounds in square pixels, inclusive.
    max_dets : (M,) caps on detections per image and category, ascending. LVIS has one entry, the
        cap per image.
    """

    thresholds: np.ndarray
    recall_grid: np.ndarray
    area_names: tuple[str, ...]
    areas: np.ndarray
    max_dets: tuple[int, ...]

    def threshold_index(self, threshold: float) -> int:
        """Position of an IoU threshold, by equality of floats."""
        found = np.flatnonzero(self.thresholds == threshold)
        if not found.size:
            raise PermafrostError(
                f"no IoU threshold {threshold} was evaluated",
                where="iou_thresholds",
                remedy=f"choose one of {', '.join(f'{t:g}' for t in self.thresholds)}",
            )
        return int(found[0])

    def area_index(self, name: str) -> int:
        """Position of an area range."""
        look_up(self.area_names, name, "the evaluation has no area range", where="area_ranges")
        return self.area_names.index(name)

    def cap_index(self, cap: int) -> int:
        """Position of a cap on detections."""
        if cap not in self.max_dets:
            raise PermafrostError(
                f"no cap of {cap} detections was evaluated",
                where="max_dets",
                remedy=f"choose one of {', '.join(map(str, self.max_dets))}",
            )
        return self.max_dets.index(cap)


def make_axes(
    iou_type: str,
    *,
    lvis: bool = False,
    iou_thresholds=None,
    area_ranges=None,
    max_dets=None,
    recall_grid=None,
) -> Axes:
    """Make the axes of a kernel; COCO's (or LVIS's) by default.

    Parameters
    ----------
    iou_thresholds : numbers in [0, 1].
    area_ranges : name to (low, high) in square pixels; must include ``all``, from which AP is read.
    max_dets : positive whole numbers, in any order. LVIS: one number, the
        cap per image, negative for none.
    recall_grid : ascending recalls in [0, 1] at which precision is read (pycocotools' ``recThrs``).

    Raises
    ------
    PermafrostError : a threshold or recall outside [0, 1], recalls that do not ascend, ranges without
        ``all``, a range with low > high, no caps.
    """
    keypoints = iou_type == "keypoints"
    if area_ranges is None:
        area_ranges = KEYPOINT_AREA_RANGES if keypoints else AREA_RANGES
    if max_dets is None:
        max_dets = KEYPOINT_MAX_DETECTIONS if keypoints else MAX_DETECTIONS
        max_dets = LVIS_MAX_DETECTIONS if lvis else max_dets
    thresholds = IOU_THRESHOLDS if iou_thresholds is None else _thresholds(iou_thresholds)
    names, areas = _areas(area_ranges)
    grid = RECALL_GRID if recall_grid is None else _recall_grid(recall_grid)
    return Axes(thresholds, grid, names, areas, _caps(max_dets, lvis))


def _shares(given, what: str, where: str, remedy: str) -> np.ndarray:
    """Check numbers in [0, 1], at least one."""
    try:
        shares = np.atleast_1d(np.asarray(given, np.float64))
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.ndim != 1 or not shares.size or not ((shares >= 0) & (shares <= 1)).all():
        raise PermafrostError(
            f"{what} must be numbers in [0, 1], not {given!r}", where=where, remedy=remedy
        )
    return shares


def _recall_grid(given) -> np.ndarray:
    grid = _shares(given, "the recall grid", "recall_grid", "give for example 0:1:0.1 or 0,0.5,1")
    if (np.diff(grid) <= 0).any():
        raise PermafrostError(
            "the recalls of the grid must ascend without repeats",
            where="recall_grid",
            remedy="sort them and remove repeats",
        )
    return grid


def _thresholds(given) -> np.ndarray:
    thresholds = _shares(given, "IoU thresholds", "iou_thresholds", "give for example 0.5,0.75")
    if len(np.unique(thresholds)) != len(thresholds):
        raise PermafrostError("an IoU threshold is given twice", where="iou_thresholds")
    return thresholds


def _areas(given) -> tuple[tuple[str, ...], np.ndarray]:
    if not isinstance(given, Mapping) or "all" not in given:
        raise PermafrostError(
            "area ranges must be a mapping from names to (low, high) with one range named 'all'",
            where="area_ranges",
            remedy="give for example {'all': (0, 1e10), 'tiny': (0, 256)}",
        )
    for name, bounds in given.items():
        try:
            low, high = map(float, bounds)
        except (TypeError, ValueError):
            low, high = math.nan, math.nan
        if not 0 <= low <= high:
            raise PermafrostError(
                f"an area range must be (low, high) with 0 <= low <= high, not {bounds!r}",
                where=f"area_ranges: {name}",
            )
    return tuple(given), np.array([tuple(map(float, b)) for b in given.values()])


def _caps(given, lvis: bool) -> tuple[int, ...]:
    caps = [given] if isinstance(given, int | np.integer) else list(given)
    whole = all(isinstance(cap, int | np.integer) and not isinstance(cap, bool) for cap in caps)
    if not caps or not whole or (not lvis and min(caps) < 1) or len(set(caps)) != len(caps):
        raise PermafrostError(
            f"caps on detections must be distinct positive integers, not {given!r}",
            where="max_dets",
            remedy="give for example 1,10,100",
        )
    if lvis and len(caps) != 1:
        raise PermafrostError(
            f"LVIS has one cap, on the detections of an image, not {len(caps)}",
            where="max_dets",
            remedy="give one number, or none for 300",
        )
    return tuple(sorted(map(int, caps)))
