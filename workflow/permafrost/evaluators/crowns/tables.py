"""A crown evaluation as Arrow tables: one of matches, one of images."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import shapely

from permafrost.data.deepforest.annotations import Annotations
from permafrost.data.labels.geometries import BOX, POINT
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.metrics.ratios import divide


def match_table(evaluation: CrownEvaluation):
    """One row per truth, then one per unmatched prediction.

    Columns: ``image_path``; ``outcome``: ``match``, ``miss``, ``false alarm`` or ``left out`` (a
    prediction on an image that the rules exclude); ``truth_row`` and ``prediction_row``, the rows
    in the sources; ``true_label``, ``predicted_label``, ``score``; ``iou`` or ``distance``; and
    the shapes, as ``true_xmin`` … ``predicted_ymax``, ``…_x``, ``…_y``, or ``…_geometry`` (WKB).
    Null if there is none. A miss also names the partner that did not reach the threshold, if any;
    that prediction still has its own row as a false alarm.
    """
    partner = evaluation.partner
    alone = ~evaluation.hit
    truths = np.concatenate([np.arange(len(partner)), np.full(alone.sum(), -1)])
    predictions = np.concatenate([partner, np.flatnonzero(alone)])
    point = evaluation.kind == POINT
    quality = np.concatenate([evaluation.quality, np.full(alone.sum(), np.nan)])
    without = (truths < 0) | (predictions < 0)
    left_out = ~evaluation.counted[evaluation.image_of(evaluation.predictions)]
    found = np.append(evaluation.match, np.zeros(alone.sum(), bool))
    # dtype object: a text array would truncate longer words
    outcome = np.where(found, "match", "miss").astype(object)
    outcome[truths < 0] = np.where(left_out[alone], "left out", "false alarm")
    truth_image = np.array(evaluation.truth.images, object)[evaluation.truth.image]
    predicted_image = np.array(evaluation.predictions.images, object)[evaluation.predictions.image]
    columns = {
        "image_path": pa.array(np.append(truth_image, predicted_image[alone]), pa.string()),
        "outcome": pa.array(outcome, pa.string()),
        "truth_row": _picked(evaluation.truth.row, truths, pa.int64()),
        "prediction_row": _picked(evaluation.predictions.row, predictions, pa.int64()),
        "true_label": _picked(evaluation.truth.label, truths, pa.string()),
        "predicted_label": _picked(evaluation.predictions.label, predictions, pa.string()),
        "score": _picked(evaluation.predictions.score, predictions, pa.float64()),
        "distance" if point else "iou": pa.array(quality, pa.float64(), mask=without),
        **_shapes("true", evaluation.truth, truths),
        **_shapes("predicted", evaluation.predictions, predictions),
    }
    return pa.table(columns)


def image_table(evaluation: CrownEvaluation):
    """One row per image: counts, recall, precision, and whether its predictions count."""
    truths, predictions, matches = evaluation.image_counts.values()
    recall, precision = divide(matches, truths), divide(matches, predictions)
    return pa.table(
        {
            "image_path": pa.array(evaluation.images, pa.string()),
            "state": pa.array(evaluation.image_states, pa.string()),
            "counted": pa.array(evaluation.counted),
            "truths": truths,
            "predictions": predictions,
            "matches": matches,
            "recall": pa.array(recall, pa.float64(), mask=np.isnan(recall)),
            "precision": pa.array(precision, pa.float64(), mask=np.isnan(precision)),
        }
    )


def _picked(values: np.ndarray, rows: np.ndarray, kind):
    """Values at rows; null at -1 and for unknown scores."""
    if not len(values):
        return pa.nulls(len(rows), kind)
    picked = values[np.maximum(rows, 0)]
    return pa.array(picked, kind, mask=(rows < 0) | (picked != picked))


def _shapes(prefix: str, crowns: Annotations, rows: np.ndarray) -> dict:
    if crowns.kind not in (BOX, POINT):
        wkb = np.array(shapely.to_wkb(crowns.shape), object)
        return {f"{prefix}_geometry": _picked(wkb, rows, pa.binary())}
    names = ("xmin", "ymin", "xmax", "ymax") if crowns.kind == BOX else ("x", "y")
    return {
        f"{prefix}_{name}": _picked(crowns.shape[:, place], rows, pa.float64())
        for place, name in enumerate(names)
    }
