"""Tables per image, category, detection and pair, as columns of NumPy arrays.

They cover the area range ``all`` and the detections within the largest cap. There is no average
precision per image on purpose: the score is not a mean of such values.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.kernels import make_kernel
from permafrost.metrics.detection.pairs import find_pairs
from permafrost.metrics.ratios import divide

# a larger table of pairs is of no use to a reader
MOST_PAIRS = 10_000_000
# name of the mean over the categories in the table of curves
MEAN = "__mean__"
_THRESHOLDS = (0.5, 0.75)


def image_table(evaluation: Evaluation) -> dict[str, np.ndarray]:
    """A row per image: numbers of truths that count (``n_gt``) and of detections, and for each of the
    evaluated thresholds 0.50 and 0.75 the hits (``tp50``), false alarms, misses and the mean
    IoU of the hits (NaN without hits). Ignored detections are neither hits nor false alarms."""
    cells, matching, area = evaluation.cells, evaluation.matching, _all(evaluation)
    images = evaluation.truths.images
    count = max(len(images), 1)
    detection_image, truth_image = cells.detection_cell % count, cells.truth_cell % count
    regular = ~matching.truth_ignored[:, area]

    def per_image(image, weights=None):
        return np.bincount(image, weights, minlength=len(images))

    out = {
        "image_id": images.ids,
        "n_gt": per_image(truth_image[regular]),
        "n_dt": per_image(detection_image),
    }
    for threshold in _evaluated(evaluation):
        at = evaluation.axes.threshold_index(threshold)
        hit, likeness = _hits(evaluation, area, at)
        alarm = ~hit & ~matching.ignored(area, at)
        tp = per_image(detection_image[hit])
        mark = f"{threshold * 100:.0f}"
        out[f"tp{mark}"] = tp
        out[f"fp{mark}"] = per_image(detection_image[alarm])
        out[f"fn{mark}"] = out["n_gt"] - tp
        out[f"tp{mark}_mean_iou"] = divide(per_image(detection_image[hit], likeness[hit]), tp)
    return out


def category_table(evaluation: Evaluation) -> dict[str, np.ndarray]:
    """A row per category: average precision over all thresholds, at single ones and per area range,
    recall at every cap, and numbers of truths that count and of detections; -1 without truths.
    Pooled categories have one row."""
    cells, axes = evaluation.cells, evaluation.axes
    categories = evaluation.truths.categories
    kept = evaluation.settings.use_categories
    area = _all(evaluation)
    regular = ~evaluation.matching.truth_ignored[:, area]
    out = {
        "category_id": categories.ids if kept else np.array([-1]),
        "name": np.array(categories.names) if kept else np.array(["all categories"]),
        "ap": evaluation.average_precision(),
    }
    for threshold in _evaluated(evaluation):
        mark = f"ap{threshold * 100:.0f}"
        out[mark] = evaluation.average_precision(threshold=threshold)
    for name in axes.area_names:
        if name != "all":
            out[f"ap_{name}"] = evaluation.average_precision(area=name)
    for place, cap in enumerate(axes.max_dets):
        out[f"ar_{cap}"] = evaluation.curves.recall[:, :, area, place].mean(axis=0)
    out["n_gt"] = np.bincount(cells.truth_bucket[regular], minlength=cells.buckets)
    out["n_dt"] = np.bincount(cells.detection_bucket, minlength=cells.buckets)
    return out


def curve_table(evaluation: Evaluation, *, areas=("all",), caps=None) -> dict[str, np.ndarray]:
    """Precision-recall curves: a row per category, threshold, area range, cap and point of the grid.

    Thresholds are 0.50 and 0.75, if they were evaluated, and the mean over all (NaN). After the
    categories comes the mean over those with truths (`MEAN`). Categories without truths have no rows.

    Parameters
    ----------
    areas : names of area ranges.
    caps : detections per image and category, the largest if None.

    Returns
    -------
    ``category_id`` (None for the mean), ``category``, ``iou_threshold``, ``area``, ``max_dets``,
    ``recall``, ``precision`` (interpolated: the largest at this or a higher recall; 0 beyond the highest recall), and
    ``score``, at which this recall is reached; NaN if it is not reached, and for means.
    """
    axes, curves = evaluation.axes, evaluation.curves
    caps = [axes.max_dets[-1]] if caps is None else caps
    names, ids = _labels(evaluation)
    grid = axes.recall_grid
    parts = []
    for area in areas:
        for cap in caps:
            at = (..., axes.area_index(area), axes.cap_index(cap))
            precision, scores = curves.precision[at], curves.scores[at]
            there = np.flatnonzero((precision > -1).all(axis=(0, 1)))
            scores = np.where(grid[:, None] <= curves.recall[at][:, None], scores, np.nan)
            for threshold in [*_evaluated(evaluation), None]:
                if threshold is None:
                    shown, marks = precision.mean(axis=0), np.full(precision.shape[1:], np.nan)
                else:
                    place = axes.threshold_index(threshold)
                    shown, marks = precision[place], scores[place]
                parts += [
                    _curves_of(
                        *(names[there], ids[there], shown[:, there], marks[:, there]),
                        *(threshold, area, cap, grid),
                    )
                ]
                if len(there) and evaluation.settings.use_categories:
                    mean = shown[:, there].mean(axis=1, keepdims=True)
                    none = np.array([None], object)
                    label = np.array([MEAN], object)
                    marks = np.full_like(mean, np.nan)
                    parts.append(_curves_of(label, none, mean, marks, threshold, area, cap, grid))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _curves_of(names, ids, precision, scores, threshold, area, cap, grid) -> dict:
    """Rows of (R, K) precision and scores, category by category."""
    count, points = len(names), len(grid)
    rows = count * points
    return {
        "category_id": np.repeat(ids, points),
        "category": np.repeat(names, points),
        "iou_threshold": np.full(rows, np.nan if threshold is None else threshold),
        "area": np.full(rows, area, object),
        "max_dets": np.full(rows, cap, np.int64),
        "recall": np.tile(grid, count),
        "precision": precision.T.ravel(),
        "score": scores.T.ravel(),
    }


def _labels(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray]:
    """(K,) names and ids of the categories as objects; pooled categories are one without an id."""
    categories = evaluation.truths.categories
    if not evaluation.settings.use_categories:
        return np.array(["all categories"], object), np.array([None], object)
    return np.array(categories.names, object), np.array(categories.ids.tolist(), object)


def detection_table(evaluation: Evaluation, *, threshold: float = 0.5) -> dict[str, np.ndarray]:
    """A row per detection, in file order: ids, score, area, ``status`` (tp, fp or ignored) at the
    threshold, the id of the matched truth (None without) and the largest similarity to any truth of its
    image and category."""
    cells, matching, area = evaluation.cells, evaluation.matching, _all(evaluation)
    detections, truths = evaluation.detections, evaluation.truths
    at = evaluation.axes.threshold_index(threshold)
    hit, _ = _hits(evaluation, area, at)
    status = np.where(hit, "tp", np.where(matching.ignored(area, at), "ignored", "fp"))
    taken = matching.matched(area, at)
    partner = np.full(len(taken), None, object)
    partner[taken >= 0] = truths.ids[cells.truths[taken[taken >= 0]]].tolist()
    pairs = find_pairs(cells, _kernel(evaluation), np.nextafter(0, 1))
    best = np.zeros(len(taken))
    # pairs of a row ascend by similarity: the last assignment is the best
    best[pairs.rows] = pairs.similarity
    order = np.argsort(cells.detections)
    rows = cells.detections[order]
    return {
        "detection_id": detections.ids[rows],
        "image_id": truths.images.ids[detections.image[rows]],
        "category_id": _category_ids(evaluation, detections.category[rows]),
        "score": detections.scores[rows],
        "area": detections.areas[rows],
        "status": status[order],
        "truth_id": partner[order],
        "best_iou": best[order],
    }


def pair_table(evaluation: Evaluation, *, lowest: float = 0.1) -> dict[str, np.ndarray]:
    """A row per pair of a detection and a truth of one image and category with a similarity of at least `lowest`.

    Raises
    ------
    PermafrostError : more than ten million pairs.
    """
    cells = evaluation.cells
    detections, truths = evaluation.detections, evaluation.truths
    pairs = find_pairs(cells, _kernel(evaluation), lowest)
    if len(pairs) > MOST_PAIRS:
        raise PermafrostError(
            f"{len(pairs)} pairs are at least {lowest} alike",
            where="table of pairs",
            remedy=f"ask for a higher likeness; {MOST_PAIRS} rows are the most",
        )
    rows, columns = cells.detections[pairs.rows], cells.truths[pairs.columns]
    return {
        "detection_id": detections.ids[rows],
        "truth_id": truths.ids[columns],
        "image_id": truths.images.ids[detections.image[rows]],
        "category_id": _category_ids(evaluation, detections.category[rows]),
        "truth_category_id": _category_ids(evaluation, truths.category[columns]),
        "score": detections.scores[rows],
        "iou": pairs.similarity,
    }


def _all(evaluation: Evaluation) -> int:
    return evaluation.axes.area_index("all")


def _evaluated(evaluation: Evaluation) -> list[float]:
    return [t for t in _THRESHOLDS if t in evaluation.axes.thresholds]


def _hits(evaluation: Evaluation, area: int, at: int) -> tuple[np.ndarray, np.ndarray]:
    """(D,) whether each row is a hit, and its similarity to its truth."""
    matching = evaluation.matching
    hit = np.zeros(len(evaluation.cells.detections), bool)
    likeness = np.zeros(len(hit))
    hit[matching.candidates] = matching.hits()[:, area, at]
    likeness[matching.candidates] = matching.similarity[:, area, at]
    return hit, likeness


def _kernel(evaluation: Evaluation):
    return make_kernel(evaluation.settings.iou_type, evaluation.problem)


def _category_ids(evaluation: Evaluation, category: np.ndarray) -> np.ndarray:
    ids = evaluation.truths.categories.ids
    return ids[category] if len(ids) else np.full(len(category), -1)
