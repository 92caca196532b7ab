"""`COCOeval`'s results per image: matches (`evalImgs`), similarities (`ious`), and their curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.accumulate import Curves
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.kernels import make_kernel
from permafrost.metrics.detection.ragged import in_blocks, spans

if TYPE_CHECKING:
    from permafrost.evaluators.detection.parameters import Params

_EPS = np.spacing(1)
# pairs compared at once
_BLOCK = 1 << 18


def matches_per_image(found: Evaluation, p: Params) -> list[dict | None]:
    """`COCOeval.evalImgs`: per category, area range and image, in this order; None if empty."""
    cells, matching = found.cells, found.matching
    detection_ids = found.detections.ids[cells.detections]
    truth_ids = found.truths.ids[cells.truths]
    scores = found.detections.scores[cells.detections]
    busy = np.union1d(cells.detection_cell, cells.truth_cell)
    sides = []
    for cell in (cells.detection_cell, cells.truth_cell):
        ends = (np.searchsorted(cell, busy, side=side).tolist() for side in ("left", "right"))
        sides.append([slice(*pair) for pair in zip(*ends, strict=True)])
    categories = p.catIds if p.useCats else [-1]
    out: list[dict | None] = [None] * (len(categories) * len(p.areaRng) * len(p.imgIds))
    for a, bounds in enumerate(p.areaRng):
        taken, ignored, taker, passed = _lane(matching, detection_ids, truth_ids, a)
        for cell, own, true in zip(busy.tolist(), *sides, strict=True):
            k, i = divmod(cell, cells.images)
            # truths that are not ignored come first
            order = true.start + np.argsort(passed[true], kind="stable")
            out[(k * len(p.areaRng) + a) * cells.images + i] = {
                "image_id": p.imgIds[i],
                "category_id": categories[k],
                "aRng": bounds,
                "maxDet": p.maxDets[-1],
                "dtIds": detection_ids[own].tolist(),
                "gtIds": truth_ids[order].tolist(),
                "dtMatches": taken[:, own].copy(),
                "gtMatches": taker[:, order],
                "dtScores": scores[own].tolist(),
                "gtIgnore": passed[order] if len(order) else np.array([]),
                "dtIgnore": ignored[:, own].copy(),
            }
    return out


def _lane(matching, detection_ids, truth_ids, area: int) -> tuple[np.ndarray, ...]:
    """For one area range: (T, D) ids of the matched truths and whether each detection is ignored,
    (T, G) ids of the detections that matched each truth, (G,) whether the truth is ignored."""
    column = matching.column[:, area]
    thresholds = column.shape[1]
    taken = np.zeros((thresholds, len(detection_ids)))
    taker = np.zeros((thresholds, len(truth_ids)))
    # rows ascend, so the last detection matched to a crowd remains
    candidate, threshold = np.nonzero(column >= 0)
    row, place = matching.candidates[candidate], column[candidate, threshold]
    taken[threshold, row], taker[threshold, place] = truth_ids[place], detection_ids[row]
    ignored = np.array([matching.ignored(area, t) for t in range(thresholds)])
    ignored = ignored.reshape(thresholds, len(detection_ids))
    return taken, ignored, taker, matching.truth_ignored[:, area].astype(np.int64)


def likenesses(found: Evaluation, p: Params) -> dict:
    """`COCOeval.ious`: (image id, category id) to the (D, G) similarities of its detections,
    highest score first, and its truths; or to an empty list."""
    cells = found.cells
    categories = p.catIds if p.useCats else [-1]
    out: dict = {(image, category): [] for image in p.imgIds for category in categories}
    kernel = make_kernel(found.settings.iou_type, found.problem)
    # a row without a column has no partners, whatever its cell holds
    partnered = cells.detection_cell[cells.count > 0]
    busy = np.intersect1d(partnered, cells.truth_cell)
    sides = []
    for cell in (cells.detection_cell, cells.truth_cell):
        sides += [np.searchsorted(cell, busy, side=side) for side in ("left", "right")]
    heights, widths = sides[1] - sides[0], sides[3] - sides[2]
    for block in in_blocks(heights * widths, _BLOCK):
        high, wide = heights[block], widths[block]
        rows = spans(sides[0][block], high)
        width = np.repeat(wide, high)
        columns = spans(np.repeat(sides[2][block], high), width)
        values = kernel.exact(cells.detections[np.repeat(rows, width)], cells.truths[columns])
        parts = np.split(values, np.cumsum(high * wide)[:-1])
        for cell, part, *shape in zip(busy[block].tolist(), parts, high, wide, strict=True):
            k, i = divmod(cell, cells.images)
            out[p.imgIds[i], categories[k]] = part.reshape(shape)
    return out


def count_images(images: list, p: Params) -> Curves:
    """Curves from results per image, in the order of `evalImgs`, counted as in pycocotools.

    Raises
    ------
    PermafrostError : the number of results does not match the categories, area ranges and images.
    """
    categories = len(p.catIds) if p.useCats else 1
    count = len(p.imgIds)
    shape = (len(p.iouThrs), categories, len(p.areaRng), len(p.maxDets))
    if len(images) != categories * len(p.areaRng) * count:
        raise PermafrostError(
            f"evalImgs has {len(images)} entries, not one per category, area range and image",
            where="evalImgs",
            remedy="set params.imgIds to all images",
        )
    recall = np.full(shape, -1.0)
    precision = np.full((shape[0], len(p.recThrs), *shape[1:]), -1.0)
    scores = precision.copy()
    for k in range(categories):
        for a in range(shape[2]):
            begin = (k * shape[2] + a) * count
            found = [each for each in images[begin : begin + count] if each is not None]
            total = sum(int(np.count_nonzero(np.asarray(e["gtIgnore"]) == 0)) for e in found)
            if not total:
                continue
            for m, cap in enumerate(p.maxDets):
                at = (slice(None), k, a, m)
                precision[:, :, k, a, m], recall[at], scores[:, :, k, a, m] = _count_curves(
                    found, total, cap, np.asarray(p.recThrs)
                )
    return Curves(precision, recall, scores)


def _count_curves(found: list[dict], total: int, cap: int, grid: np.ndarray):
    """(T, R) precision, (T,) recall and (T, R) scores of one category, area range and cap."""
    marks = np.concatenate([each["dtScores"][:cap] for each in found])
    order = np.argsort(-marks, kind="mergesort")
    marks = marks[order]
    taken, ignored = (
        np.concatenate([each[name][:, :cap] for each in found], axis=1)[:, order].astype(bool)
        for name in ("dtMatches", "dtIgnore")
    )
    hits = np.cumsum(taken & ~ignored, axis=1).astype(float)
    alarms = np.cumsum(~taken & ~ignored, axis=1).astype(float)
    thresholds, width = hits.shape
    precision, scores = np.zeros((2, thresholds, len(grid)))
    if not width:
        return precision, np.zeros(thresholds), scores
    reached = hits / total
    envelope = hits / (alarms + hits + _EPS)
    envelope = np.maximum.accumulate(envelope[:, ::-1], axis=1)[:, ::-1]
    for t in range(thresholds):
        places = np.searchsorted(reached[t], grid, side="left")
        # pycocotools stops at the first recall that is not reached
        inside = np.logical_and.accumulate(places < width)
        precision[t, inside] = envelope[t, places[inside]]
        scores[t, inside] = marks[places[inside]]
    return precision, reached[:, -1], scores
