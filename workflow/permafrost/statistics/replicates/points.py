"""Scores of detected points: average precision, and recall, precision, F1 and counts at a score threshold."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.data.labels.geometries import POINT
from permafrost.data.labels.objects import Objects
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.point_precision import RankedPoints, rank_points
from permafrost.metrics.ratios import mean_of_defined
from permafrost.statistics.replicates.counted import count_images, ratios_of_counts
from permafrost.statistics.resampling.carriers import units_of_each


class PointScores:
    """Detected points of the images of a test set, matched with the truth.

    Parameters
    ----------
    objects, detections : of every image.
    classes : names of the K classes.
    score_threshold : see `DetectedObjects`.
    match_distance : pixels.
    """

    def __init__(
        self,
        objects: list[Objects],
        detections: list[Detected],
        *,
        classes: list[str],
        score_threshold: float,
        match_distance: float,
    ) -> None:
        self.objects, self.detections = objects, detections
        self.classes, self.score_threshold = len(classes), score_threshold
        self.match_distance = match_distance

    @cached_property
    def rankings(self) -> list[RankedPoints]:
        """The detections of each class, by score."""
        return rank_points(
            self.objects, self.detections, classes=self.classes, distance=self.match_distance
        )

    @cached_property
    def counts(self) -> np.ndarray:
        """Hits and counts of every image at the score threshold, see `counted.count_images`."""
        images = (
            (objects.centres, objects.classes, objects.crowd, found.centres, found.classes)
            for objects, each in zip(self.objects, self.detections, strict=True)
            for found in [each.above(self.score_threshold)]
        )
        return count_images(POINT, images, classes=self.classes, threshold=self.match_distance)

    def holders(self, metric: str, units: np.ndarray) -> np.ndarray | None:
        """(K,) units with objects of each class, for values from curves; see `SingleLabel`."""
        if metric not in ("point_ap", "class_point_ap"):
            return None
        own = [np.unique(each.classes[~each.crowd]) for each in self.objects]
        images = np.repeat(np.arange(len(own)), [len(each) for each in own])
        return units_of_each(np.concatenate(own), units[images], self.classes)

    def ratios(self, sums: np.ndarray) -> dict[str, np.ndarray]:
        """Values from weighted sums of `counts`, see `counted.ratios_of_counts`."""
        return ratios_of_counts("point", sums)

    def curve_values(self) -> dict:
        """Average precision of the whole test set, and (K,) of each class; NaN without truth."""
        once = np.ones((len(self.objects), 1), np.int64)
        values = self.curve_replicates(once, {"point_ap", "class_point_ap"})
        return {
            "point_ap": float(values["point_ap"][0]),
            "class_point_ap": values["class_point_ap"][:, 0],
        }

    def curve_replicates(self, counts: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
        """The same on resamples that draw image i counts[i] (N, B) times, if `wanted`."""
        if not wanted & {"point_ap", "class_point_ap"}:
            return {}
        each = np.stack([one.average_precision(counts) for one in self.rankings])
        return {"point_ap": mean_of_defined(each), "class_point_ap": each}
