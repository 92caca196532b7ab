"""COCO's average precision of boxes and polygons, computed by `permafrost.metrics.detection`.

Boxes score as in `metrics.detection.evaluate` on the same data as COCO JSON. The IoU of polygons is
exact, whereas COCO's masks count pixels. It therefore needs no image sizes.
"""

from __future__ import annotations

import numpy as np
import shapely

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.labels.geometries import BOX, POINT
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.metrics.detection.axes import AREA_RANGES, MAX_DETECTIONS, make_axes
from permafrost.metrics.detection.evaluate import solve
from permafrost.metrics.detection.evaluation import Evaluation, Settings
from permafrost.metrics.detection.inputs.tables import Categories, Detections, Images, Truths
from permafrost.metrics.detection.kernels import Problem
from permafrost.metrics.detection.summarise import Statistic
from permafrost.metrics.objects.overlaps import areas

# COCO's largest number of detections per image and class
CAP = MAX_DETECTIONS[-1]


def evaluate_precision(evaluation: CrownEvaluation, *, max_detections: int = CAP) -> Evaluation:
    """Average precision (``AP``, ``AP50``, ``AP75``) of scored boxes or polygons.

    Images ascend by name. Crowns that `evaluation` excludes, by its rules or its minimum score, are
    excluded here too. Classes that only the predictions name have no average precision.

    Parameters
    ----------
    max_detections : the detections with the highest scores that count, per image and class.

    Raises
    ------
    PermafrostError : points; predictions without scores; `max_detections` below 1.
    """
    if evaluation.kind == POINT:
        raise PermafrostError("points have no IoU", remedy="see `average_precision`")
    predictions = evaluation.predictions
    if len(predictions) and not predictions.has_scores:
        raise PermafrostError(
            "average precision needs a column 'score'",
            where=predictions.where,
            remedy="add the column",
        )
    axes = make_axes(
        "bbox", area_ranges={"all": AREA_RANGES["all"]}, max_dets=(int(max_detections),)
    )
    predictions = predictions.take(evaluation.counted[evaluation.image_of(predictions)])
    place = {name: number for number, name in enumerate(sorted(evaluation.images))}
    classes = evaluation.classes
    unknown = np.zeros(len(place), np.int64)
    true, found = _columns(evaluation.truth, place, classes), _columns(predictions, place, classes)
    nothing = np.zeros(len(evaluation.truth), bool)
    truths = Truths(
        source=evaluation.truth.where,
        images=Images(np.arange(1, len(place) + 1), unknown, unknown),
        categories=Categories(np.arange(1, len(classes) + 1), classes),
        crowd=nothing,
        ignored=nothing,
        **true,
    )
    detections = Detections(source=predictions.where, scores=predictions.score, **found)
    boxes = evaluation.kind == BOX
    settings = Settings("bbox" if boxes else "polygon")
    problem = Problem(truths, detections, None, None, settings.boundary_ratio, None)
    kernel = None if boxes else PolygonOverlap(predictions.shape, evaluation.truth.shape, problem)
    cap = axes.max_dets[-1]
    wanted = (
        Statistic("AP", "precision", None, "all", cap),
        Statistic("AP50", "precision", 0.5, "all", cap),
        Statistic("AP75", "precision", 0.75, "all", cap),
    )
    return solve(problem, settings, axes, wanted, kernel=kernel)


def _columns(crowns: Annotations, place: dict[str, int], classes: tuple[str, ...]) -> dict:
    """The columns that truths and detections share; `place` maps an image name to its index."""
    corners = crowns.shape
    if crowns.kind != BOX:
        corners = shapely.bounds(crowns.shape)
    corners = corners.reshape(-1, 4)
    # images whose crowns were all excluded may be unknown
    places = np.array([place.get(name, -1) for name in crowns.images], np.int64)
    return {
        "entries": np.arange(len(crowns)),
        "ids": np.arange(1, len(crowns) + 1),
        "image": places[crowns.image],
        "category": np.searchsorted(np.array(classes, object), crowns.label).astype(np.int64),
        "boxes": np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]]),
        "areas": areas(crowns.kind, crowns.shape),
    }


class PolygonOverlap:
    """Exact IoU of polygons, with the interface of `permafrost.metrics.detection.kernels`.

    Parameters
    ----------
    detections, truths : (D,) and (G,) shapely polygons.
    """

    def __init__(self, detections: np.ndarray, truths: np.ndarray, problem: Problem) -> None:
        self.detections, self.truths = detections, truths
        self.boxes = problem.detections.boxes, problem.truths.boxes
        self.areas = problem.detections.areas, problem.truths.areas

    def bound(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) upper bound of the IoU: the boxes' intersection over the larger polygon's area."""
        detected, true = self.boxes[0][detections], self.boxes[1][truths]
        low = np.maximum(detected[:, :2], true[:, :2])
        high = np.minimum(detected[:, :2] + detected[:, 2:], true[:, :2] + true[:, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=1)
        larger = np.maximum(self.areas[0][detections], self.areas[1][truths])
        return np.minimum(common / larger, 1.0)

    def extents(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounding boxes of the polygons."""
        return self.boxes

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) IoU."""
        common = shapely.area(
            shapely.intersection(self.detections[detections], self.truths[truths])
        )
        return common / (self.areas[0][detections] + self.areas[1][truths] - common)
