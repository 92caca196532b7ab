"""Evaluate predicted crowns: the entry point of this package."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.deepforest.maps import read_tables
from permafrost.data.deepforest.reading import AUTO, as_kind, read_annotations
from permafrost.data.labels.geometries import BOX, POINT
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.crowns.rules import Rules
from permafrost.metrics.objects.matching import (
    DISTANCE_THRESHOLD,
    IOU_THRESHOLD,
    check_rule,
    match_shapes,
)


def evaluate(
    truth,
    predictions,
    *,
    geometry: str = AUTO,
    matching: str | None = None,
    iou_threshold: float = IOU_THRESHOLD,
    distance_threshold: float = DISTANCE_THRESHOLD,
    min_score: float | None = None,
    average: str = "image",
    without_predictions: str = "zero",
    without_truth: str = "zero",
    unlisted: str = "error",
    invalid: str = "error",
    images: str | Path | None = None,
) -> CrownEvaluation:
    """Recall and precision of predicted crowns, per image or over all, and per class.

    Parameters
    ----------
    truth, predictions : CSV files in DeepForest's format, files of shapes, data frames, records, or
        `Annotations`; see `permafrost.data.deepforest.reading.read_annotations`.
    geometry : ``box``, ``polygon`` or ``point``; ``auto`` takes the kind that both tables hold.
    matching : ``area`` (default, DeepForest), ``iou`` or ``score``; for points ``distance``
        (default, DeepForest), ``within`` or ``score``. `matching` describes them.
    iou_threshold : a match has a strictly larger IoU.
    distance_threshold : matched points are strictly closer than this, in pixels.
    min_score : exclude predictions with lower scores; the result counts them.
    average, without_predictions, without_truth, unlisted : see `rules`.
    invalid : ``error``, or ``drop`` to exclude and count invalid rows; see
        `permafrost.data.deepforest.reading.read_annotations`.
    images : folder of georeferenced images, for files of shapes; see
        `permafrost.data.deepforest.maps.read_tables`.

    Raises
    ------
    PermafrostError : see `permafrost.data.deepforest.reading.read_annotations`; predictions on
        images that the truth does not name; different kinds of shapes; nothing to score.
    """
    rules = Rules(average, without_predictions, without_truth, unlisted)
    if any(isinstance(source, str | Path) for source in (truth, predictions)):
        known = {"truth": truth, "predictions": predictions}
        files = {k: v for k, v in known.items() if not isinstance(v, Annotations)}
        known |= read_tables(files, images=images).columns
        truth, predictions = known["truth"], known["predictions"]
    truth = _read(truth, "truth", geometry, invalid)
    predictions = _read(predictions, "predictions", geometry, invalid)
    truth, predictions = _same_kind(truth, predictions)
    if not truth.images:
        raise PermafrostError(
            "no images are named",
            where=truth.where,
            remedy="name every searched image; an image without crowns has a row of zeros",
        )
    rule = check_rule(matching, truth.kind)
    below = 0
    if min_score is not None:
        keep = scored(predictions, "min_score") >= min_score
        below = int(np.count_nonzero(~keep))
        predictions = predictions.take(keep)
    if rule == "score":
        scored(predictions, "the matching by score")
    named, predictions, unlisted_count = join_images(truth, predictions, rules)
    threshold = distance_threshold if truth.kind == POINT else iou_threshold
    _check_threshold(truth.kind, threshold)
    partner, quality, pairs = _match(truth, predictions, named, rule, threshold)
    return CrownEvaluation(
        truth=truth,
        predictions=predictions,
        images=named,
        rules=rules,
        matching=rule,
        threshold=threshold,
        partner=partner,
        quality=quality,
        pair_sums=pairs,
        below_score=below,
        unlisted=unlisted_count,
    )


def _read(source, what: str, geometry: str, invalid: str) -> Annotations:
    if isinstance(source, Annotations):
        return source if geometry == AUTO else as_kind(source, geometry)
    return read_annotations(source, what, geometry=geometry, invalid=invalid)


def _same_kind(truth: Annotations, predictions: Annotations) -> tuple[Annotations, Annotations]:
    """Give an empty table the kind of the other one."""
    if not len(predictions):
        kind = truth.kind or predictions.kind or BOX
        return as_kind(truth, kind), as_kind(predictions, kind)
    if not len(truth):
        return as_kind(truth, predictions.kind), predictions
    if truth.kind != predictions.kind:
        raise PermafrostError(
            f"the truth holds shapes of the kind {truth.kind}, the predictions {predictions.kind}",
            where=predictions.where,
            remedy="convert both to one kind with geometry (--geometry box, polygon or point); evaluate-boxes"
            " gives the recall of true points in predicted boxes or polygons",
        )
    return truth, predictions


def scored(predictions: Annotations, what: str) -> np.ndarray:
    if len(predictions) and not predictions.has_scores:
        raise PermafrostError(
            f"{what} needs a column 'score'",
            where=predictions.where,
            remedy="add the column, or leave the option out",
        )
    return predictions.score


def _check_threshold(kind: str, threshold: float) -> None:
    fits = threshold > 0 if kind == POINT else 0 <= threshold < 1
    if not fits or not np.isfinite(threshold):
        what = "distance, above 0" if kind == POINT else "IoU, at least 0 and below 1"
        raise PermafrostError(f"the threshold {threshold} is no {what}")


def join_images(truth: Annotations, predictions: Annotations, rules: Rules):
    """The images to score, the predictions on them, and the number excluded on unlisted images."""
    known = set(truth.images)
    named = [name for name in predictions.images if name not in known]
    if not named:
        return truth.images, predictions, 0
    if rules.unlisted == "empty":
        return (*truth.images, *named), predictions, 0
    if rules.unlisted == "error":
        shown = ", ".join(map(repr, named[:3])) + (" …" if len(named) > 3 else "")
        raise PermafrostError(
            f"{len(named)} images with predictions are not in the truth ({shown};"
            f" the truth names {truth.images[0]!r} …)",
            where=predictions.where,
            remedy="write the same image_path in both; if they hold no crowns, name them in the"
            " truth by a row of zeros or say unlisted: empty; skip leaves them out",
        )
    listed = np.array([name in known for name in predictions.images], bool)
    keep = listed[predictions.image]
    return truth.images, predictions.take(keep), int(np.count_nonzero(~keep))


def _match(truth: Annotations, predictions: Annotations, images, rule: str, threshold: float):
    """Partner and quality of every truth; per image, the sum and number of `pair_iou`."""
    point = truth.kind == POINT
    partner = np.full(len(truth), -1, np.int64)
    quality = np.full(len(truth), np.inf if point else 0.0)
    pair_sums = np.zeros((2, len(images)))
    rows = zip(truth.by_image(images), predictions.by_image(images), strict=True)
    for number, (own, found) in enumerate(rows):
        if not len(own) or not len(found):
            continue
        matched, measure, pairs = match_shapes(
            truth.kind,
            truth.shape[own],
            predictions.shape[found],
            predictions.score[found],
            rule=rule,
            threshold=threshold,
        )
        partner[own] = np.where(matched >= 0, found[matched], -1)
        quality[own] = measure
        if not point:
            alike = truth.label[own][pairs.first] == predictions.label[found][pairs.second]
            counted = pairs.iou[alike & (pairs.iou >= threshold)]
            pair_sums[:, number] = counted.sum(), len(counted)
    return partner, quality, pair_sums
