"""Cells: the truths and detections of one image and category. Empty cells do not exist."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.detection.inputs.tables import Detections, Truths
from permafrost.metrics.detection.ragged import by_descending


@dataclass(frozen=True)
class Cells:
    """Truths and detections in the order in which they are matched and counted.

    Rows are the detections within the caps, sorted by cell, and within a cell by descending
    score. Columns are the truths, sorted by cell, and within a cell in file order. Cells ascend by category
    first, then by image.

    Attributes
    ----------
    truths : (G,) positions in `Truths`, in column order.
    detections : (D,) positions in `Detections`, in row order.
    truth_cell, detection_cell : (G,), (D,) cell numbers, category * I + image.
    ranks : (D,) rank of the detection in its cell, from 0.
    first, count : (D,) first column and number of columns of each detection's cell.
    buckets : K, number of categories; 1 if they are pooled.
    images : I, number of images.
    """

    truths: np.ndarray
    detections: np.ndarray
    truth_cell: np.ndarray
    detection_cell: np.ndarray
    ranks: np.ndarray
    first: np.ndarray
    count: np.ndarray
    buckets: int
    images: int

    @property
    def detection_bucket(self) -> np.ndarray:
        """(D,) category of every row."""
        return self.detection_cell // max(self.images, 1)

    @property
    def truth_bucket(self) -> np.ndarray:
        """(G,) category of every column."""
        return self.truth_cell // max(self.images, 1)


def make_cells(
    truths: Truths, detections: Detections, *, use_categories: bool, cap: int | None, by_box: bool
) -> Cells:
    """Sort truths and detections into cells with at most `cap` detections.

    Without categories an image is one cell, ordered by ascending category, then in file order, as
    in pycocotools; the order decides ties.

    Parameters
    ----------
    cap : largest number of detections of a cell, None for no cap.
    by_box : detections of equal score are ordered by their box (x, y, width, height; oriented boxes also by
        their corners), so that the order of the file has no effect; otherwise they keep the file's order.
    """
    images = len(truths.images)
    truth_cell, truth_order = _cells(truths, images, use_categories)
    detection_cell, order = _cells(detections, images, use_categories)
    scores = detections.scores[order]
    by_score = by_descending(detection_cell[order], scores)
    order = order[by_score]
    cell, scores = detection_cell[order], detections.scores[order]
    if by_box:
        order = _break_ties(order, cell, scores, detections)
    ranks = _ranks(cell)
    if cap is not None:
        kept = ranks < cap
        order, cell, ranks = order[kept], cell[kept], ranks[kept]
    truth_cell = truth_cell[truth_order]
    first = np.searchsorted(truth_cell, cell)
    return Cells(
        truths=truth_order,
        detections=order,
        truth_cell=truth_cell,
        detection_cell=cell,
        ranks=ranks,
        first=first,
        count=np.searchsorted(truth_cell, cell, side="right") - first,
        buckets=len(truths.categories) if use_categories else 1,
        images=images,
    )


def _cells(table: Truths | Detections, images: int, use_categories: bool):
    """(N,) cell of every entry, and the entries sorted by cell, then by position in the file."""
    if use_categories:
        cell = table.category * max(images, 1) + table.image
        return cell, np.argsort(cell, kind="stable")
    return table.image, np.lexsort((table.category, table.image))


def _ranks(cell: np.ndarray) -> np.ndarray:
    """0, 1, … within each run of equal cells."""
    begin = np.ones(len(cell), bool)
    begin[1:] = cell[1:] != cell[:-1]
    places = np.arange(len(cell))
    return places - np.maximum.accumulate(np.where(begin, places, 0))


def _break_ties(order, cell, scores, detections: Detections) -> np.ndarray:
    """`order` with entries of equal cell and score sorted by box, then by area, then by corners."""
    same = np.zeros(len(order) + 1, bool)
    same[1:-1] = (cell[1:] == cell[:-1]) & (scores[1:] == scores[:-1])
    tied = np.flatnonzero(same[:-1] | same[1:])
    if not tied.size:
        return order
    order = order.copy()
    rows = order[tied]
    group = np.cumsum(~same[:-1])[tied]
    columns = [detections.areas[rows], *detections.boxes[rows].T[::-1]]
    if detections.corners is not None:
        columns = [*detections.corners[rows].reshape(-1, 8).T[::-1], *columns]
    order[tied] = rows[np.lexsort((*columns, group))]
    return order
