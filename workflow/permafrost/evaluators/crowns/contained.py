"""True points in predicted boxes or polygons, as for stems of trees and crowns.

``point_recall`` is the share of the points that lie inside of any predicted shape, as in DeepForest's function of that
name (until release 2.0, where a point inside of several shapes counts several times; here it counts once). A shape may
hold many points: one shape over an image finds everything. So there are also ``matched_point_recall``,
``matched_point_precision`` and ``matched_point_f1``, of the largest one-to-one assignment of points and shapes that
hold them. A point on the edge of a shape is not inside. Overall values disregard labels; those of a class are of its
points and of the shapes with its label, over all images.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import shapely
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.labels.geometries import BOX, POINT
from permafrost.evaluators.crowns.evaluate import join_images, scored
from permafrost.evaluators.crowns.rules import Rules
from permafrost.metrics.ratios import divide

Name = tuple[str, str | None]  # metric, class (None: overall)
_PREFIX = "matched_point"


@dataclass(frozen=True)
class ContainedPoints:
    """Which points lie in which shapes.

    Attributes
    ----------
    truth, predictions : points, and boxes or polygons.
    images : (I,) names of the scored images.
    average : ``image``, overall values are means over images; ``dataset``: of all points.
    holders : (T,) number of shapes that hold each point.
    partner : (T,) shape of each point in the one-to-one assignment, -1 for none.
    right : (T,) bool: a shape with the label of the point holds it.
    own_partner : (T,) as `partner`, among shapes with the label of the point.
    below_score, unlisted : see `result.CrownEvaluation`.
    """

    truth: Annotations
    predictions: Annotations
    images: tuple[str, ...]
    average: str
    holders: np.ndarray
    partner: np.ndarray
    right: np.ndarray
    own_partner: np.ndarray
    below_score: int = 0
    unlisted: int = 0

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """All labels of truth and predictions, sorted."""
        return tuple(sorted({*self.truth.label.tolist(), *self.predictions.label.tolist()}))

    @cached_property
    def values(self) -> dict[Name, float]:
        """Every value by metric and class; NaN if undefined."""
        once = np.ones((len(self.images), 1))
        return {name: float(value[0]) for name, value in self.replicates(once).items()}

    def replicates(self, counts: np.ndarray) -> dict[Name, np.ndarray]:
        """(B,) values on resamples; `counts` (I, B) is how often each image was drawn."""
        drawn, found = counts.astype(np.float64), {}
        for name, (above, below) in self._ratios.items():
            found[name] = divide(above @ drawn, below @ drawn)
        return found

    @property
    def truths(self) -> dict[str, np.ndarray]:
        """(I,) points of every class, in each image."""
        return {
            label: self._per_image(self.truth, self.truth.label == label) for label in self.classes
        }

    @property
    def counted(self) -> np.ndarray:
        """(I,) bool: all images count."""
        return np.ones(len(self.images), bool)

    def average_of(self, metric: str, label: str | None) -> str:
        """``image`` or ``dataset``, see `result.CrownEvaluation.average_of`."""
        return self.average if label is None and metric in _OVERALL else "dataset"

    def heading(self) -> str:
        """What was evaluated, in one line."""
        mean = (
            "mean over images (classes: all images pooled)"
            if self.average == "image"
            else "all images pooled"
        )
        return (
            f"{len(self.truth)} points on {len(self.images)} images, {len(self.predictions)} predicted"
            f" {'boxes' if self.predictions.kind == BOX else 'polygons'}; {mean}"
        )

    def notes(self) -> list[str]:
        """Remarks on what was left out, and on points in several shapes."""
        said = [
            f"{count} rows were left out: {problem}."
            for crowns in (self.truth, self.predictions)
            for problem, count in crowns.dropped.items()
        ]
        if self.below_score:
            said.append(f"{self.below_score} predictions score too low and were left out.")
        if self.unlisted:
            said.append(f"{self.unlisted} predictions on images outside the truth were left out.")
        if several := int(np.count_nonzero(self.holders > 1)):
            said.append(f"{several} points lie in several predictions; each counts once.")
        return [
            *said,
            "point_recall counts points inside of any prediction, so large predictions raise it; matched_point_… give"
            " each prediction one point at most.",
        ]

    def image_of(self, crowns: Annotations) -> np.ndarray:
        """(N,) index of each shape's image in `images`."""
        number = {name: place for place, name in enumerate(self.images)}
        return np.array([number.get(name, -1) for name in crowns.images], np.intp)[crowns.image]

    @cached_property
    def _ratios(self) -> dict[Name, tuple[np.ndarray, np.ndarray]]:
        """(I,) numerators and denominators of every value."""
        points, shapes = (
            self._per_image(one, slice(None)) for one in (self.truth, self.predictions)
        )
        inside = self._per_image(self.truth, self.holders > 0)
        matched = self._per_image(self.truth, self.partner >= 0)
        found = _named(None, inside, matched, points, shapes)
        if self.average == "image":
            # an image has a value where the denominator is above 0
            found = {
                name: (divide(above, below, undefined=0.0), (below > 0).astype(np.float64))
                for name, (above, below) in found.items()
            }
        for label in self.classes:
            own, made = self.truth.label == label, self.predictions.label == label
            found |= _named(
                label,
                self._per_image(self.truth, own & self.right),
                self._per_image(self.truth, own & (self.own_partner >= 0)),
                self._per_image(self.truth, own),
                self._per_image(self.predictions, made),
            )
        return found

    def _per_image(self, crowns: Annotations, chosen) -> np.ndarray:
        return np.bincount(self.image_of(crowns)[chosen], minlength=len(self.images))


_OVERALL = ("point_recall", *(f"{_PREFIX}_{name}" for name in ("recall", "precision", "f1")))


def _named(label: str | None, inside, matched, points, shapes) -> dict[Name, tuple]:
    return {
        ("point_recall", label): (inside, points),
        (f"{_PREFIX}_recall", label): (matched, points),
        (f"{_PREFIX}_precision", label): (matched, shapes),
        (f"{_PREFIX}_f1", label): (2 * matched, points + shapes),
    }


def evaluate_contained(
    truth: Annotations,
    predictions: Annotations,
    *,
    min_score: float | None = None,
    average: str = "image",
    unlisted: str = "error",
) -> ContainedPoints:
    """Recall of true points by predicted boxes or polygons.

    Parameters
    ----------
    min_score, average, unlisted : see `evaluate.evaluate`.

    Raises
    ------
    PermafrostError : other kinds of shapes; predictions on images that the truth does not name; no image.
    """
    if truth.kind != POINT or predictions.kind == POINT:
        raise PermafrostError(
            f"the truth holds {truth.kind}, the predictions {predictions.kind}",
            where=predictions.where,
            remedy="give true points and predicted boxes or polygons",
        )
    rules, below = Rules(average=average, unlisted=unlisted), 0
    if min_score is not None:
        keep = scored(predictions, "min_score") >= min_score
        below = int(np.count_nonzero(~keep))
        predictions = predictions.take(keep)
    images, predictions, left = join_images(truth, predictions, rules)
    holders, partner, right, own_partner = _contain(truth, predictions, images)
    return ContainedPoints(
        truth=truth,
        predictions=predictions,
        images=images,
        average=average,
        holders=holders,
        partner=partner,
        right=right,
        own_partner=own_partner,
        below_score=below,
        unlisted=left,
    )


def _contain(truth: Annotations, predictions: Annotations, images):
    """`holders`, `partner`, `right` and `own_partner` of all points."""
    holders = np.zeros(len(truth), np.int64)
    partner, own_partner = np.full((2, len(truth)), -1, np.int64)
    right = np.zeros(len(truth), bool)
    shapes = predictions.shape
    if predictions.kind == BOX:
        shapes = shapely.box(*shapes.T)
    for own, made in zip(truth.by_image(images), predictions.by_image(images), strict=True):
        points = shapely.points(truth.shape[own])
        first, second = shapely.STRtree(shapes[made]).query(points, predicate="within")
        alike = truth.label[own][first] == predictions.label[made][second]
        holders[own] = np.bincount(first, minlength=len(own))
        right[own[first[alike]]] = True
        for target, chosen in ((partner, slice(None)), (own_partner, alike)):
            found = _assigned(first[chosen], second[chosen], (len(own), len(made)))
            target[own] = np.where(found >= 0, made[found] if len(made) else -1, -1)
    return holders, partner, right, own_partner


def _assigned(first: np.ndarray, second: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(T,) column of each row in a largest one-to-one assignment, -1 for none."""
    if not len(first):
        return np.full(shape[0], -1, np.int64)
    links = csr_array((np.ones(len(first), bool), (first, second)), shape)
    return maximum_bipartite_matching(links, perm_type="column").astype(np.int64)


def point_table(found: ContainedPoints):
    """One row per point: ``image_path``, ``truth_row``, ``true_label``, ``x``, ``y``, ``predictions`` (number of those
    that hold it) and ``prediction_row`` (its own in the one-to-one assignment; null for none)."""
    import pyarrow as pa

    names = np.array(found.truth.images, object)[found.truth.image]
    alone = found.partner < 0
    rows = np.zeros(len(alone), np.int64)
    rows[~alone] = found.predictions.row[found.partner[~alone]]
    return pa.table(
        {
            "image_path": pa.array(names, pa.string()),
            "truth_row": pa.array(found.truth.row, pa.int64()),
            "true_label": pa.array(found.truth.label, pa.string()),
            "x": found.truth.shape[:, 0],
            "y": found.truth.shape[:, 1],
            "predictions": found.holders,
            "prediction_row": pa.array(rows, pa.int64(), mask=alone),
        }
    )
