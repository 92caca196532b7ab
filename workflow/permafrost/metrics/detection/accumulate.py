"""Precision on the recall grid, and recall, for all categories, thresholds, area ranges and caps at once.

The precision envelope of a curve only changes at its hits: a false alarm or an ignored detection
never raises precision, and a recall is first reached at a hit. So only hits are visited, of which there are
fewer than truths; a running sum per range and cap counts all other detections. The values equal
those of pycocotools bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.memory import available_bytes
from permafrost.metrics.detection.axes import Axes
from permafrost.metrics.detection.cells import Cells
from permafrost.metrics.detection.matching import Matching
from permafrost.metrics.detection.ragged import by_descending, offsets_of

# pycocotools adds it to the number of detections, the denominator of precision
EPS = np.spacing(1)
# curves of more bytes than the first are refused (some 25,000 categories with COCO's axes);
# from the second on, free memory is checked
_MOST_BYTES, _MANY_BYTES = 5 * 10**9, 10**9


@dataclass(frozen=True)
class Curves:
    """Precision, recall and scores, as pycocotools has them in ``eval``; -1 for categories without truths.

    Attributes
    ----------
    precision, scores : (T, R, K, A, M) precision at each recall, and the score at which it is reached.
    recall : (T, K, A, M) recall of all detections.
    """

    precision: np.ndarray
    recall: np.ndarray
    scores: np.ndarray


# for an evaluation that was matched but not accumulated
NO_CURVES = Curves(np.empty((0,) * 5), np.empty((0,) * 4), np.empty((0,) * 5))


def accumulate(cells: Cells, matching: Matching, scores: np.ndarray, axes: Axes) -> Curves:
    """Compute the precision-recall curves of a matching.

    Parameters
    ----------
    scores : (D,) in row order of `cells`.

    Raises
    ------
    PermafrostError : the curves of all categories do not fit into memory.
    """
    shape = (len(axes.thresholds), cells.buckets, len(axes.areas), len(axes.max_dets))
    grid = len(axes.recall_grid)
    size = 16 * grid * math.prod(shape)
    # all other arrays held at this time take less than half as much
    free = available_bytes() if _MANY_BYTES < size <= _MOST_BYTES else None
    if size > _MOST_BYTES or (free is not None and 1.5 * size > free):
        of_free = "" if free is None else f" ({free / 1e9:.1f} GB are free)"
        raise PermafrostError(
            f"the curves of {cells.buckets} categories would take {size / 1e9:.1f} GB of memory{of_free}",
            where="categories",
            remedy="leave out categories that are not evaluated, ask for fewer thresholds, area ranges or"
            " caps, or pool the categories",
        )
    ranked = Ranked(cells, matching, scores)
    precision = np.full((shape[0], grid, *shape[1:]), -1.0)
    at_scores = np.full_like(precision, -1.0)
    recall = np.full(shape, -1.0)
    if not cells.buckets:
        return Curves(precision, recall, at_scores)
    for a in range(shape[2]):
        for m, cap in enumerate(axes.max_dets):
            # in LVIS a negative cap means no cap
            curves = ranked.curves(a, cap if cap >= 0 else None, axes.recall_grid)
            full = ranked.full[a]
            precision[:, :, full, a, m], recall[:, full, a, m], at_scores[:, :, full, a, m] = curves
    return Curves(precision, recall, at_scores)


class Ranked:
    """Detections sorted as their curves need them: by category, descending score, image, rank.

    Attributes
    ----------
    scores, bucket, image, ranks : (D,) for every row; `buckets` is the number of categories.
    counted : (D, A) bool: a false alarm if it matches no truth.
    place : (C,) rows of the candidates of the matching, ascending.
    hits, excused : (A, T, C) for the candidates, see `Matching`.
    positives : (A, K) number of truths that count.
    full : for each range the categories with positives; only they have curves.
    """

    def __init__(self, cells: Cells, matching: Matching, scores: np.ndarray) -> None:
        bucket = cells.detection_bucket
        order = by_descending(bucket, scores)
        self.order, self.buckets = order, cells.buckets
        self.scores = scores[order]
        self.bucket = bucket[order]
        self.image = cells.detection_cell[order] % max(cells.images, 1)
        self.ranks = cells.ranks[order]
        self.counted = ~matching.outside[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        place = place[matching.candidates]
        by_place = np.argsort(place)
        self.place = place[by_place]
        hits, excused = (outcome[by_place] for outcome in matching.outcomes())
        # (A, T, C), so that the candidates of a curve are contiguous
        self.hits = np.ascontiguousarray(hits.transpose(1, 2, 0))
        self.excused = np.ascontiguousarray(excused.transpose(1, 2, 0))
        self.positives = np.stack(
            [
                np.bincount(cells.truth_bucket[~ignored], minlength=cells.buckets)
                for ignored in matching.truth_ignored.T
            ]
        ).reshape(matching.truth_ignored.shape[1], cells.buckets)
        self.full = [np.flatnonzero(positives) for positives in self.positives]

    def curves(self, area: int, cap: int | None, grid: np.ndarray):
        """(T, R, F) precision, (T, F) recall and (T, R, F) scores of one range and cap for its F `full` categories."""
        within = np.ones(len(self.order), bool) if cap is None else self.ranks < cap
        counted = within & self.counted[:, area]
        first = np.searchsorted(self.bucket, np.arange(self.buckets + 1))
        running = np.concatenate(([0], np.cumsum(counted)))
        inside = within[self.place]
        hits = self.hits[area] & inside
        # a hit counts even outside of the area range; a detection at an ignored truth never counts
        change = (hits & ~counted[self.place]).astype(np.int32)
        change -= self.excused[area] & counted[self.place]
        np.cumsum(change, axis=1, out=change)
        bucket = self.bucket[self.place]
        # as np.nonzero(hits), which is slower
        lane = np.repeat(np.arange(len(hits)), np.count_nonzero(hits, axis=1))
        at = np.flatnonzero(hits) - lane * hits.shape[1]
        curve = lane * self.buckets + bucket[at]
        found = np.bincount(curve, minlength=len(hits) * self.buckets)
        begin = offsets_of(found)
        rank = np.arange(1, len(at) + 1) - begin[curve]
        seen = (running[self.place + 1] - running[first[bucket]])[at]
        seen = seen + change[lane, at] - _before(change, bucket, self.buckets)[lane, bucket[at]]
        precision = rank / (seen + EPS)
        return self._read(
            area, within, first, precision, self.scores[self.place[at]], begin, found, grid
        )

    def _read(self, area, within, first, precision, scores, begin, found, grid):
        """Write the envelope of every curve at the recall grid into `precision` and `scores`."""
        full = self.full[area]
        positives = self.positives[area][full]
        needed = hits_needed(positives, grid)  # (F, R)
        found = found.reshape(-1, self.buckets)[:, full]
        begin = begin[:-1].reshape(-1, self.buckets)[:, full]
        reached = found[:, :, None] >= np.maximum(needed, 1)
        # recall 0 needs no hit: its envelope begins at the first hit
        where = (begin[:, :, None] + np.maximum(needed, 1) - 1)[reached]
        values = np.zeros(reached.shape)
        marks = np.zeros(reached.shape)
        if where.size:
            values[reached] = _highest(precision, where, begin, found, reached)
            marks[reached] = scores[where]
        values = np.maximum.accumulate(values[:, :, ::-1], axis=2)[:, :, ::-1]
        free = needed == 0
        marks = np.where(free, self._top_scores(within, first)[full, None], marks)
        return values.transpose(0, 2, 1), found / positives, marks.transpose(0, 2, 1)

    def _top_scores(self, within, first) -> np.ndarray:
        """(K,) highest score of every category, including ignored detections; 0 without detections."""
        places = np.flatnonzero(within)
        nearest = np.searchsorted(places, first[:-1])
        out = np.zeros(self.buckets)
        has = nearest < np.searchsorted(places, first[1:])
        out[has] = self.scores[places[nearest[has]]]
        return out


def _before(change: np.ndarray, bucket: np.ndarray, buckets: int) -> np.ndarray:
    """(T, K) cumulative change before the first candidate of every category."""
    padded = np.zeros((len(change), change.shape[1] + 1), change.dtype)
    padded[:, 1:] = change
    return padded[:, np.searchsorted(bucket, np.arange(buckets))]


def _highest(precision, where, begin, found, reached) -> np.ndarray:
    """Largest precision from each position up to the next, or to the end of its curve."""
    # the end of a curve closes its last segment; the appended value is never the largest
    owner = np.broadcast_to(np.arange(found.size).reshape(*found.shape, 1), reached.shape)[reached]
    last = np.ones(len(where), bool)
    last[:-1] = owner[1:] != owner[:-1]
    ends = (begin + found).ravel()[owner[last]]
    edges = np.insert(where, np.flatnonzero(last) + 1, ends)
    highest = np.maximum.reduceat(np.append(precision, 0.0), edges)
    return highest[np.arange(len(where)) + np.concatenate(([0], np.cumsum(last)[:-1]))]


def hits_needed(positives: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(K, R) smallest number of hits whose recall, as a float, reaches each point of the grid.

    `positives` are the (K,) truths that count.
    """
    total = np.maximum(positives, 1)[:, None]
    guess = np.ceil(grid * total) - 1
    # pycocotools compares the float quotient; the product may be off by one
    for _ in range(2):
        guess += guess / total < grid
    return np.maximum(guess, 0).astype(np.int64)
