"""Parameters of `COCOeval`, and checks of them."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.axes import (
    AREA_RANGES,
    IOU_THRESHOLDS,
    KEYPOINT_AREA_RANGES,
    KEYPOINT_MAX_DETECTIONS,
    MAX_DETECTIONS,
    RECALL_GRID,
    Axes,
)
from permafrost.metrics.detection.kernels.keypoints import COCO_SIGMAS


class Params:
    """pycocotools' parameters, by its names.

    Attributes
    ----------
    imgIds, catIds : ids of the evaluated images and categories.
    iouThrs, recThrs : (T,) IoU thresholds and (R,) recalls at which precision is read.
    maxDets : M caps on detections per image and category.
    areaRng, areaRngLbl : A bounds in square pixels, and their names.
    useCats : 0 pools all categories.
    iouType : bbox, segm, keypoints, or boundary (which pycocotools lacks).
    kpt_oks_sigmas : falloff of every keypoint.
    useSegm : pycocotools' old name: 1 for segm, 0 for bbox.
    """

    def __init__(self, iouType: str = "segm") -> None:
        self.iouType = iouType
        self.useSegm = None
        if iouType == "keypoints":
            self.setKpParams()
        else:
            self.setDetParams()

    def setDetParams(self) -> None:
        """Set the values for boxes and masks."""
        self._set(AREA_RANGES, MAX_DETECTIONS)

    def setKpParams(self) -> None:
        """Set the values for keypoints."""
        self._set(KEYPOINT_AREA_RANGES, KEYPOINT_MAX_DETECTIONS)
        self.kpt_oks_sigmas = COCO_SIGMAS.copy()

    def _set(self, areas: dict, caps: tuple) -> None:
        self.imgIds: list = []
        self.catIds: list = []
        self.iouThrs, self.recThrs = IOU_THRESHOLDS.copy(), RECALL_GRID.copy()
        self.maxDets = list(caps)
        self.areaRng = [list(bounds) for bounds in areas.values()]
        self.areaRngLbl = list(areas)
        self.useCats = 1


def axes_of(thresholds, recalls, names, areas, caps) -> tuple[Axes, np.ndarray]:
    """The axes with an ascending recall grid, and the position on it of each requested recall."""
    grid, places = np.unique(np.asarray(recalls, np.float64), return_inverse=True)
    bounds = np.asarray(areas, np.float64).reshape(-1, 2)
    thresholds, caps = np.asarray(thresholds, np.float64), tuple(map(int, caps))
    return Axes(thresholds, grid, tuple(names), bounds, caps), places


def check_unchanged(given, evaluated, names: tuple[str, ...]) -> None:
    """Refuse parameters `names` that differ from those that `evaluate` used."""
    for name in names:
        if not np.array_equal(getattr(given, name), getattr(evaluated, name)):
            raise PermafrostError(
                f"{name} was changed after the evaluation",
                where=f"params.{name}",
                remedy="call evaluate() again",
            )


def distinct(ids) -> list:
    """The distinct ids, ascending."""
    return list(np.unique(list(ids) if isinstance(ids, set | frozenset) else ids))


def check_axes(p: Params) -> None:
    """Refuse parameters that are not lists of numbers; an empty list gives empty results."""
    for name in ("iouThrs", "recThrs", "maxDets", "areaRng"):
        check_numbers(getattr(p, name), f"params.{name}", pairs=name == "areaRng")
    if not len(p.maxDets):
        raise PermafrostError(
            "there is no cap on detections", where="params.maxDets", remedy="give for example [100]"
        )


def check_numbers(given, where: str, *, pairs: bool = False) -> None:
    """Refuse anything but a list of numbers, or with `pairs` a list of pairs of numbers."""
    try:
        shape = np.asarray(given, np.float64).shape
    except (TypeError, ValueError):
        shape = ()
    if shape != (0,) and (len(shape) != 1 + pairs or (pairs and shape[1] != 2)):
        raise PermafrostError(
            f"must be a list of {'[low, high]' if pairs else 'numbers'}, not {given!r}", where=where
        )


def check_summary(axes: Axes, thresholds: str, names: str) -> None:
    """Refuse to summarise without a threshold, or with names of area ranges that do not exist."""
    if not len(axes.thresholds):
        raise PermafrostError(
            "there is no IoU threshold to summarise", where=f"params.{thresholds}"
        )
    if len(axes.area_names) > len(axes.areas):
        raise PermafrostError(
            f"{len(axes.area_names)} names for {len(axes.areas)} area ranges",
            where=f"params.{names}",
            remedy="give a name for each range",
        )
