"""`COCOeval`'s results per image: who matched whom (`evalImgs`), likeness (`ious`), and curves of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.accumulate import Curves
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.kernels import make_kernel

if TYPE_CHECKING:
    from permafrost.evaluators.detection.cocoeval import Params

_EPS = np.spacing(1)


def matches_per_image(found: Evaluation, p: Params) -> list[dict | None]:
    """`COCOeval.evalImgs`: per category, area range and image, in this order; None where nothing is."""
    cells, matching = found.cells, found.matching
    detection_ids = found.detections.ids[cells.detections]
    truth_ids = found.truths.ids[cells.truths]
    scores = found.detections.scores[cells.detections]
    busy = np.union1d(cells.detection_cell, cells.truth_cell)
    sides = []
    for cell in (cells.detection_cell, cells.truth_cell):
        bounds = (np.searchsorted(cell, busy, side=side).tolist() for side in ("left", "right"))
        sides.append([slice(*pair) for pair in zip(*bounds, strict=True)])
    categories = p.catIds if p.useCats else [-1]
    out: list[dict | None] = [None] * (len(categories) * len(p.areaRng) * len(p.imgIds))
    for a, bounds in enumerate(p.areaRng):
        taken, ignored, taker, passed = _lane(matching, detection_ids, truth_ids, a)
        for cell, own, true in zip(busy.tolist(), *sides, strict=True):
            k, i = divmod(cell, cells.images)
            # truths that count come first
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
    """Of one area range: (T, D) ids of the truths taken and whether each detection is ignored, (T, G)
    ids of the detections that took each truth, (G,) whether it is ignored."""
    column = matching.column[:, area]
    thresholds = column.shape[1]
    taken = np.zeros((thresholds, len(detection_ids)))
    taker = np.zeros((thresholds, len(truth_ids)))
    # rows ascend: of all detections at a crowd, the last one stays
    candidate, threshold = np.nonzero(column >= 0)
    row, place = matching.candidates[candidate], column[candidate, threshold]
    taken[threshold, row], taker[threshold, place] = truth_ids[place], detection_ids[row]
    ignored = np.array([matching.ignored(area, t) for t in range(thresholds)])
    ignored = ignored.reshape(thresholds, len(detection_ids))
    return taken, ignored, taker, matching.truth_ignored[:, area].astype(np.int64)


class Likeness(Mapping):
    """`COCOeval.ious`."""

    def __init__(self, found: Evaluation, p: Params) -> None:
        self._found = found
        self._images = {identity: i for i, identity in enumerate(p.imgIds)}
        categories = p.catIds if p.useCats else [-1]
        self._categories = {identity: k for k, identity in enumerate(categories)}
        self._kernel = make_kernel(found.settings.iou_type, found.problem)

    def __len__(self) -> int:
        return len(self._images) * len(self._categories)

    def __iter__(self) -> Iterator[tuple]:
        return ((image, category) for image in self._images for category in self._categories)

    def __getitem__(self, key: tuple):
        image, category = key
        cells = self._found.cells
        cell = self._categories[category] * cells.images + self._images[image]
        rows = slice(*np.searchsorted(cells.detection_cell, [cell, cell + 1]))
        columns = slice(*np.searchsorted(cells.truth_cell, [cell, cell + 1]))
        detections, truths = cells.detections[rows], cells.truths[columns]
        # without a column, a row has no partners, whatever its cell holds
        if not len(truths) or not cells.count[rows].any():
            return []
        pairs = np.repeat(detections, len(truths)), np.tile(truths, len(detections))
        return self._kernel.exact(*pairs).reshape(len(detections), len(truths))


def count_images(images: list, p: Params) -> Curves:
    """Curves of results per image, in `evalImgs`' order, as pycocotools counts them."""
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
        # pycocotools reads no further than to the first recall that is not reached
        inside = np.logical_and.accumulate(places < width)
        precision[t, inside] = envelope[t, places[inside]]
        scores[t, inside] = marks[places[inside]]
    return precision, reached[:, -1], scores
