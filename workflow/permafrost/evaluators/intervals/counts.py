"""Errors of counts of objects per image, and densities, with what intervals need; for boxes, points and masks."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.crowns.contained import ContainedPoints
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.intervals.replicated import Name
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.objects.counting import TERMS, count_errors, count_terms
from permafrost.metrics.ratios import divide
from permafrost.statistics.resampling.carriers import Carriers
from permafrost.statistics.resampling.units import Units

HECTARE = 10_000.0


class CountScores:
    """Numbers of objects in images, as an evaluation of `standalone.score_rows`.

    ``count_mae``, ``count_rmse``, ``count_bias`` and ``count_r2`` (`metrics.objects.counting`) of all classes, and of
    each if there are several. With areas also ``true_density`` and ``found_density``, objects per hectare, and
    ``density_bias``, their difference.

    Parameters
    ----------
    truths, found : (K, I) numbers of objects and of detections of each class, without regard to place.
    names : K classes.
    counted : (I,) bool, the images that count; all for None.
    hectares : (I,) areas of the images, or None.
    """

    def __init__(self, truths, found, names, *, counted=None, hectares=None) -> None:
        several = len(names) > 1
        self.labels = (None, *(names if several else ()))
        truths, found = np.asarray(truths, np.int64), np.asarray(found, np.int64)
        if several:
            truths, found = (
                np.concatenate([one.sum(axis=0)[None], one]) for one in (truths, found)
            )
        images = truths.shape[1]
        self.images = np.ones(images) if counted is None else np.asarray(counted, np.float64)
        rows = TERMS * len(truths)
        self.terms = count_terms(truths, found).reshape(rows, images) * self.images
        self.hectares = None if hectares is None else np.asarray(hectares) * self.images

    @cached_property
    def values(self) -> dict[Name, float]:
        once = np.ones((len(self.images), 1))
        return {name: float(value[0]) for name, value in self.replicates(once).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) replicates of every score; `counts` (I, B) is how often each image was drawn."""
        drawn = counts.astype(np.float64)
        sums = (self.terms @ drawn).reshape(TERMS, len(self.labels), -1)
        errors = count_errors(self.images @ drawn, sums)
        if self.hectares is not None:
            area = self.hectares @ drawn
            truths, found = sums[2], sums[4]
            errors["true_density"], errors["found_density"] = (
                divide(truths, area),
                divide(found, area),
            )
            errors["density_bias"] = divide(found - truths, area)
        return {
            (metric, label): values[place]
            for place, label in enumerate(self.labels)
            for metric, values in errors.items()
        }

    def carriers(self, units: Units) -> dict[Name, Carriers]:
        """All units with an image that counts carry every score."""
        held = np.count_nonzero(np.bincount(units.index, self.images, minlength=units.count))
        return {name: Carriers.of([name[1]], [held], units, has="counts") for name in self.values}


def crown_counts(
    evaluation: CrownEvaluation | ContainedPoints, hectares: dict[str, float] | None = None
) -> CountScores:
    """Counts of the crowns that an evaluation counts, by image.

    Parameters
    ----------
    hectares : area of each image by its name, or None.
    """
    count = len(evaluation.images)
    sides = [
        [np.bincount(image[crowns.label == label], minlength=count) for label in evaluation.classes]
        for crowns in (evaluation.truth, evaluation.predictions)
        for image in [evaluation.image_of(crowns)]
    ]
    areas = None if hectares is None else [hectares[name] for name in evaluation.images]
    truths, found = (np.array(side, np.int64).reshape(-1, count) for side in sides)
    if not len(evaluation.classes):
        truths = found = np.zeros((1, count), np.int64)
    return CountScores(
        truths, found, evaluation.classes, counted=evaluation.counted, hectares=areas
    )


def detection_counts(
    evaluation: Evaluation, names, score: float, pixel: float | None = None
) -> CountScores:
    """Counts of detections that score at least `score`, within the cap and without those on crowds.

    Parameters
    ----------
    names : of the categories, or one name if they are pooled.
    pixel : side of a pixel in metres, for densities; None for none.

    Raises
    ------
    PermafrostError : LVIS, whose images are not annotated in full; densities without sizes of the images.
    """
    if evaluation.settings.lvis:
        raise PermafrostError(
            "LVIS does not annotate all objects of an image, so counts cannot be compared",
            where="counts",
            remedy="leave --counts out",
        )
    cells, matching, images = evaluation.cells, evaluation.matching, evaluation.truths.images
    area, at = counted_at(evaluation)
    kept = evaluation.detections.scores[cells.detections] >= score
    kept &= ~matching.ignored(area, at)
    shape, size = (cells.buckets, len(images)), cells.buckets * len(images)
    found = np.bincount(cells.detection_cell[kept], minlength=size).reshape(shape)
    regular = ~matching.truth_ignored[:, area]
    truths = np.bincount(cells.truth_cell[regular], minlength=size).reshape(shape)
    hectares = None
    if pixel is not None:
        pixels = np.asarray(images.widths, np.float64) * np.asarray(images.heights)
        if not pixels.all():
            raise PermafrostError(
                "densities need the width and height of every image",
                where=evaluation.truths.source,
                remedy="add them to the images of the truth, or leave --pixel-size out",
            )
        hectares = pixels * pixel**2 / HECTARE
    return CountScores(truths, found, names, hectares=hectares)


def best_score(evaluation: Evaluation) -> float:
    """The score with the best F1 over all images and categories, at an IoU of 0.5 or else the least evaluated one.

    The highest of equal ones; infinite without a detection that counts.
    """
    cells, matching = evaluation.cells, evaluation.matching
    area, at = counted_at(evaluation)
    hit = np.zeros(len(cells.detections), bool)
    hit[matching.candidates] = matching.hits()[:, area, at]
    kept = ~matching.ignored(area, at)
    scores, hit = evaluation.detections.scores[cells.detections][kept], hit[kept]
    if not len(scores):
        return np.inf
    order = np.argsort(-scores, kind="stable")
    scores, hits = scores[order], np.cumsum(hit[order])
    # a threshold takes all detections of one score
    last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    truths = np.count_nonzero(~matching.truth_ignored[:, area])
    values = 2 * hits[last] / np.maximum(last + 1 + truths, 1)
    return float(scores[last[int(np.argmax(values))]])


def counted_at(evaluation: Evaluation) -> tuple[int, int]:
    """Positions of the area range ``all`` and of the threshold."""
    thresholds = evaluation.axes.thresholds
    at = evaluation.axes.threshold_index(0.5) if 0.5 in thresholds else int(np.argmin(thresholds))
    return evaluation.axes.area_index("all"), at
