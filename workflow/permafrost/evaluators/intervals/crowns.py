"""Intervals and comparisons of crown scores: recall, precision and average precision."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.geometries import POINT
from permafrost.evaluators.crowns.coco import CAP, evaluate_precision
from permafrost.evaluators.crowns.result import CrownEvaluation, Name
from permafrost.evaluators.intervals.counts import crown_counts
from permafrost.evaluators.intervals.detection import DetectionScores, detection_rows
from permafrost.evaluators.intervals.standalone import difference_rows, score_rows
from permafrost.metrics.detection.analysis import curve_table
from permafrost.metrics.objects.point_precision import FoundPoints, TruePoints, rank_points
from permafrost.metrics.ratios import mean_of_defined
from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.units import Units


class CrownScores:
    """An evaluation of crowns, with average precision if the predictions have scores.

    Attributes
    ----------
    evaluation : the matches and their scores.
    counts : errors of the number of crowns per image, and densities if `hectares` has the area of each image.
    precision : values and replicates of average precision, as an evaluation of
        `standalone.score_rows`; None without scores.
    """

    def __init__(
        self,
        evaluation: CrownEvaluation,
        *,
        max_detections: int = CAP,
        hectares: dict[str, float] | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.counts = crown_counts(evaluation, hectares)
        self.max_detections = max_detections
        self.precision: OverlapPrecision | PointPrecision | None = None
        if evaluation.predictions.has_scores and evaluation.kind:
            point = evaluation.kind == POINT
            self.precision = (
                PointPrecision(evaluation)
                if point
                else OverlapPrecision(evaluation, max_detections)
            )

    def notes(self) -> list[str]:
        """Remarks on average precision."""
        if self.precision is None:
            return ["No average precision: it needs a column 'score' of the predictions."]
        return self.precision.notes()

    def curves(self) -> dict[str, np.ndarray] | None:
        """Precision-recall curves of boxes or polygons, see
        `metrics.detection.analysis.curve_table`; None for points and without scores."""
        if not isinstance(self.precision, OverlapPrecision):
            return None

        return curve_table(self.precision.evaluation)


class OverlapPrecision:
    """COCO's average precision of boxes or polygons, over all images of an evaluation of crowns.

    ``AP`` (mean over the IoU thresholds .50:.05:.95), ``AP50``, ``AP75``; ``AP`` and ``AP50`` of
    each class if there is more than one. NaN without truth.
    """

    def __init__(self, evaluation: CrownEvaluation, max_detections: int) -> None:
        found = evaluate_precision(evaluation, max_detections=max_detections)
        self.evaluation = found
        self.cap = max_detections
        self.scores = DetectionScores(found)
        # the detection evaluation sorts images by name
        self.order = np.array(
            sorted(range(len(evaluation.images)), key=evaluation.images.__getitem__)
        )

    @property
    def values(self) -> dict[Name, float]:
        return self.scores.values

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) replicates of every score; `counts` (I, B) is how often each image was drawn."""
        return self.scores.replicates(counts[self.order])

    def carriers(self, units: Units) -> dict[Name, Carriers]:
        """The units that hold truth of the classes of every score."""
        return self.scores.carriers(replace(units, index=units.index[self.order]))

    def notes(self) -> list[str]:
        found = self.evaluation
        cells = found.detections.category * len(found.truths.images) + found.detections.image
        names, sizes = np.unique(cells, return_counts=True)
        crowded = len(np.unique(names[sizes > self.cap] % max(len(found.truths.images), 1)))
        said = [
            "AP, AP50 and AP75 are COCO's average precision at the IoU .50:.05:.95, .50 and .75, over all"
            " images."
        ]
        if crowded:
            said.append(
                f"Warning: {crowded} images have more than {self.cap} predictions of a class. Of them AP"
                " counts those with the highest scores, as COCO does; a larger --max-detections counts"
                " more."
            )
        return said


class PointPrecision:
    """Average precision of points at the evaluation's distance threshold, see `average_precision`.

    ``point_ap``, the mean over the classes with truth, and that of each class if there is more than
    one.
    """

    def __init__(self, evaluation: CrownEvaluation) -> None:
        self.distance = evaluation.threshold
        self.classes = evaluation.classes
        predictions = evaluation.predictions
        predictions = predictions.take(evaluation.counted[evaluation.image_of(predictions)])
        images = tuple(sorted(evaluation.images))
        self.order = np.array(sorted(range(len(images)), key=evaluation.images.__getitem__))
        number = {name: place for place, name in enumerate(self.classes)}
        truth, found = evaluation.truth.by_image(images), predictions.by_image(images)
        classes = [
            np.array([number[label] for label in crowns.label], np.int64)
            for crowns in (evaluation.truth, predictions)
        ]
        self.rankings = rank_points(
            [
                TruePoints(
                    evaluation.truth.shape[rows], classes[0][rows], np.zeros(len(rows), bool)
                )
                for rows in truth
            ],
            [
                FoundPoints(predictions.shape[rows], classes[1][rows], predictions.score[rows])
                for rows in found
            ],
            classes=len(self.classes),
            distance=self.distance,
        )

    @cached_property
    def values(self) -> dict[Name, float]:
        once = np.ones((len(self.order), 1), np.int64)
        return {name: float(value[0]) for name, value in self.replicates(once).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) replicates of every score; `counts` (I, B) is how often each image was drawn."""
        drawn = counts[self.order]
        each = [one.average_precision(drawn) for one in self.rankings]
        return self._named(np.array(each).reshape(-1, counts.shape[1]))

    @property
    def means(self) -> dict[Name, list[Name]]:
        """The class scores that the overall one averages, if there is more than one."""
        names = [("point_ap", name) for name in self.classes]
        return {("point_ap", None): names} if len(names) > 1 else {}

    def _named(self, each: np.ndarray) -> dict[Name, np.ndarray]:
        named: dict[Name, np.ndarray] = {("point_ap", None): mean_of_defined(each)}
        if len(self.classes) > 1:
            named |= {("point_ap", name): one for name, one in zip(self.classes, each, strict=True)}
        return named

    def notes(self) -> list[str]:
        return [
            "point_ap is average precision as COCO's, over all images, but a prediction finds the nearest"
            f" free truth within {self.distance:g} pixels."
        ]


def crown_rows(
    scores: CrownScores, units: Units, *, resamples: int, confidence: float, seed: int
) -> list[dict]:
    """Rows of `standalone.score_rows` with ``average`` (see `CrownEvaluation.average_of`).

    Average precision gets its intervals as in `detection.detection_rows`.
    """
    drawn: dict[str, Any] = {"resamples": resamples, "confidence": confidence, "seed": seed}
    rows = score_rows(scores.evaluation, units, **drawn) + score_rows(scores.counts, units, **drawn)
    if scores.precision is not None:
        rows += detection_rows(scores.precision, units, **drawn)
    return _described(scores.evaluation, rows)


def crown_differences(
    scores: CrownScores,
    other: CrownScores,
    units: Units,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> list[dict]:
    """Differences of two evaluations of the same truth: rows of `standalone.difference_rows`.

    Raises
    ------
    PermafrostError : the evaluations differ in images, truths or rules.
    """
    one, two = scores.evaluation, other.evaluation
    same = {
        "images": one.images == two.images,
        "truths": np.array_equal(one.truth.row, two.truth.row)
        and one.truth.where == two.truth.where,
        "kinds of shapes": one.kind == two.kind,
        "rules": (one.rules, one.matching, one.threshold, scores.max_detections)
        == (two.rules, two.matching, two.threshold, other.max_detections),
    }
    for what, equal in same.items():
        if not equal:
            raise PermafrostError(
                f"the two evaluations have different {what}",
                where="comparison",
                remedy="evaluate both tables of predictions against the same truth with the same options",
            )
    drawn: dict[str, Any] = {"resamples": resamples, "confidence": confidence, "seed": seed}
    rows = difference_rows(one, two, units, **drawn)
    rows += difference_rows(scores.counts, other.counts, units, **drawn)
    if scores.precision is not None and other.precision is not None:
        rows += difference_rows(scores.precision, other.precision, units, **drawn)
    return _described(one, rows)


def _described(evaluation: CrownEvaluation, rows: list[dict]) -> list[dict]:
    """Add ``average`` to the rows; overall rows come first, then class by class."""
    rows = sorted(rows, key=lambda row: (row["class"] is not None, row["class"] or ""))
    return [{**row, "average": evaluation.average_of(row["metric"], row["class"])} for row in rows]
