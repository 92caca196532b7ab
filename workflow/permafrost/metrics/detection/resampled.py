"""Every statistic on resamples of the images, without matching again.

Images do not affect each other's matching, so a resample only changes how often each detection and
each truth is counted. A detection of an image that was drawn n times stands in the ranking n times in
a row: precision rises from copy to copy of a hit, so only the last copy can shape the envelope, and
only sums over rows weighted by how often their image was drawn are needed.

This equals an evaluation of the resampled images in which every copy of a detection follows its
original: all that is asked of the numbering of the copies is that those of one image stay together.
Where two detections of one category in one image have the same score, an evaluation of copied images
puts the copies of both in another order (a b a b, not a a b b), which no rule settles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .accumulate import Ranked
from .evaluation import Evaluation
from .summarise import Statistic, pick

_EPS = np.spacing(1)
# numbers held together: rows of a category times resamples, and categories times resamples
_BLOCK = 1 << 19


@dataclass(frozen=True)
class Replicates:
    """Statistics on B resamples; NaN where nothing is there to find, or it was not evaluated.

    Attributes
    ----------
    values : (S, B), in the order of the statistics asked for.
    categories : (S, K, B) the same per category; rows of other frequency groups are NaN.
    """

    values: np.ndarray
    categories: np.ndarray


def replicates(
    evaluation: Evaluation, statistics: list[Statistic], counts: np.ndarray, *, each: int = 0
) -> Replicates:
    """Statistics on resamples.

    Parameters
    ----------
    counts : (I, B) how often each image, ascending by id, is in each resample.
    each : of how many statistics, from the first, the values per category are kept.
    """
    counts = np.asarray(counts)
    source = _Source(evaluation, statistics)
    resamples, categories = counts.shape[1], source.ranked.buckets
    values = np.full((len(statistics), resamples), np.nan)
    kept = np.full((each, categories, resamples), np.nan)
    width = max(1, _BLOCK // source.longest)
    for start in range(0, resamples, width):
        part = slice(start, min(start + width, resamples))
        weights = np.ascontiguousarray(counts[:, part], np.float64)
        curves = source.curves(weights)
        for place, statistic in enumerate(statistics):
            found = source.read(statistic, curves)
            if found is None:
                continue
            values[place, part] = _mean_of_defined(found)
            if place < each:
                kept[place, :, part] = found
    return Replicates(values, kept)


def _mean_of_defined(values: np.ndarray) -> np.ndarray:
    """(B,) mean over the categories of (K, B) values that are not NaN."""
    defined = ~np.isnan(values)
    count = defined.sum(axis=0)
    total = np.where(defined, values, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)


class _Source:
    """What the resamples share: the ranking, and what is to be computed of it."""

    def __init__(self, evaluation: Evaluation, statistics: list[Statistic]) -> None:
        cells, self.axes = evaluation.cells, evaluation.axes
        scores = evaluation.detections.scores[cells.detections]
        self.ranked = Ranked(cells, evaluation.matching, scores)
        self.groups = None
        if evaluation.settings.use_categories:
            self.groups = evaluation.truths.categories.frequencies
        self.pooled = not evaluation.settings.use_categories
        self.wanted: dict[tuple[int, int], bool] = {}
        for statistic in statistics:
            picked = pick(statistic, self.axes)
            if picked is not None:
                key = picked[1:]
                precise = statistic.of == "precision"
                self.wanted[key] = self.wanted.get(key, False) or precise
        self.lanes = {
            (area, cap): _Lanes(self.ranked, area, self.axes.max_dets[cap], precise)
            for (area, cap), precise in self.wanted.items()
        }
        truth_image = cells.truth_cell % max(cells.images, 1)
        # images of the truths that count, per area range and category
        self.truths = {
            area: _split(truth_image[regular], cells.truth_bucket[regular], self.ranked.buckets)
            for area in sorted({area for area, _ in self.wanted})
            for regular in [~evaluation.matching.truth_ignored[:, area]]
        }
        rows = np.bincount(self.ranked.bucket, minlength=1).max(initial=1)
        tensors = 2 * len(self.wanted) * len(self.axes.thresholds) * self.ranked.buckets
        self.longest = int(max(rows, tensors, cells.images, 1))

    def curves(self, weights: np.ndarray) -> dict:
        """(2, T, K, B) mean precision over the recall grid, and recall, per range and cap."""
        shape = (2, len(self.axes.thresholds), self.ranked.buckets, weights.shape[1])
        out = {}
        for key, lanes in self.lanes.items():
            found = out[key] = np.full(shape, np.nan)
            for k, images in enumerate(self.truths[key[0]]):
                positives = weights[images].sum(axis=0)
                if positives.any():
                    lanes.category(k, weights, positives, self.axes.recall_grid, found[:, :, k])
                    found[:, :, k, positives == 0] = np.nan
        return out

    def read(self, statistic: Statistic, curves: dict) -> np.ndarray | None:
        """(K, B) mean over its thresholds; None where it was not evaluated."""
        picked = pick(statistic, self.axes)
        if picked is None or (statistic.frequency is not None and self.pooled):
            return None
        threshold, *key = picked
        values = curves[tuple(key)][0 if statistic.of == "precision" else 1]
        values = values.mean(axis=0) if threshold is None else values[threshold].copy()
        if statistic.frequency is not None:
            values[[group != statistic.frequency for group in self.groups]] = np.nan
        return values


class _Lanes:
    """One area range and cap, all categories and thresholds."""

    def __init__(self, ranked: Ranked, area: int, cap: int, precise: bool) -> None:
        self.precise = precise
        within = ranked.ranks < cap if cap >= 0 else np.ones(len(ranked.ranks), bool)
        counted = within & ranked.counted[:, area]
        rows = np.flatnonzero(counted)
        self.rows = _split(ranked.image[rows], ranked.bucket[rows], ranked.buckets)
        begin = np.searchsorted(ranked.bucket[rows], np.arange(ranked.buckets + 1))
        place = ranked.place
        bucket = ranked.bucket[place]
        self.image = ranked.image[place]
        # rows of the category that count, up to each candidate
        self.upto = np.searchsorted(rows, place, side="right") - begin[bucket]
        self.hits = ranked.hits[area] & within[place]
        # a hit counts even if it lies outside; a detection at an ignored truth never counts
        self.change = (self.hits & ~counted[place]).astype(np.int8)
        self.change -= ranked.excused[area] & counted[place]
        self.first = np.searchsorted(bucket, np.arange(ranked.buckets + 1))

    def category(self, k: int, weights, positives, grid, out) -> None:
        """Write (2, T, B) mean precision and recall of category `k` into `out`."""
        running = None
        if self.precise:
            rows = self.rows[k]
            running = np.zeros((len(rows) + 1, weights.shape[1]))
            np.cumsum(weights[rows], axis=0, out=running[1:])
        own = slice(self.first[k], self.first[k + 1])
        image, upto, total = self.image[own], self.upto[own], np.maximum(positives, 1)
        for t in range(len(self.hits)):
            at = np.flatnonzero(self.hits[t, own])
            taken = weights[image[at]]
            if running is None or not at.size:
                out[:, t] = taken.sum(axis=0) / total
                continue
            found = np.cumsum(taken, axis=0)
            seen = running[upto[at]]
            change = self.change[t, own]
            other = np.flatnonzero(change)
            if other.size:
                moved = np.zeros((len(other) + 1, weights.shape[1]))
                np.cumsum(weights[image[other]] * change[other, None], axis=0, out=moved[1:])
                seen += moved[np.searchsorted(other, at, side="right")]
            recall = found / total
            out[0, t] = mean_precision(found / (seen + _EPS), recall, grid)
            out[1, t] = recall[-1]


def mean_precision(precision: np.ndarray, recall: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(B,) mean over the grid of the envelope of (H, B) hits.

    A hit of an image that was not drawn has the recall of the one before, so no point of the grid.
    """
    envelope = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    reached = points_reached(recall, grid)
    reached[1:] -= reached[:-1].copy()
    return np.einsum("hb,hb->b", envelope, reached) / len(grid)


def points_reached(recall: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Float: how many points of an even grid from 0 to 1 are at most `recall`."""
    # a search costs eight times as much; the guess is off by one at most
    # (a crowd that counts can be hit many times, which takes recall beyond 1)
    place = (np.minimum(recall, 1) * (len(grid) - 1)).astype(np.intp)
    place += np.append(grid, np.inf)[place + 1] <= recall
    place -= grid[place] > recall
    return place + 1.0


def _split(values: np.ndarray, bucket: np.ndarray, buckets: int) -> list[np.ndarray]:
    """`values` per bucket, which ascend."""
    return np.split(values, np.searchsorted(bucket, np.arange(1, buckets))) if buckets else []
