"""Every statistic on resamples of the images, without matching again.

Images do not affect each other's matching, so a resample only changes how often each detection and
each truth counts. A detection of an image that was drawn n times is in the ranking n times in
a row: precision rises from copy to copy of a hit, so only the last copy can shape the envelope, and
sums over rows, weighted by how often their image was drawn, are enough.

This equals an evaluation of the resampled images in which every copy of a detection follows its
original, which holds if the copies of an image have consecutive ids.
The only exception are two detections of one category in one image with the same score: an evaluation
of copied images orders their copies a b a b instead of a a b b, and COCO has no rule for such ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.progress import terminal_progress
from permafrost.metrics.detection.accumulate import Ranked, hits_needed
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.resampled_curves import count_truths, resampled_curves
from permafrost.metrics.detection.summarise import Statistic, pick
from permafrost.metrics.ratios import mean_of_defined

# a block of resamples takes about this many bytes, and at most this many resamples, so that
# progress is visible
_BLOCK_BYTES, _BLOCK = 128 << 20, 200
# bytes per detection and resample while its category is computed
_ROW_BYTES = 40


@dataclass(frozen=True)
class Replicates:
    """Statistics on B resamples; NaN without truths, or if not evaluated.

    Attributes
    ----------
    values : (S, B), in the order of the requested statistics.
    categories : (S, K, B) the same per category; NaN for categories of other frequency groups.
    """

    values: np.ndarray
    categories: np.ndarray


def replicates(
    evaluation: Evaluation, statistics: list[Statistic], counts: np.ndarray, *, each: int = 0
) -> Replicates:
    """Compute statistics on resamples.

    Parameters
    ----------
    counts : (I, B) how often each image, ascending by id, is in each resample.
    each : number of statistics, from the first, whose values per category are kept.
    """
    counts = np.asarray(counts)
    source = ResampledCurves(evaluation, statistics)
    resamples, categories = counts.shape[1], source.ranked.buckets
    values = np.full((len(statistics), resamples), np.nan)
    kept = np.full((each, categories, resamples), np.nan)
    width = max(1, min(_BLOCK, _BLOCK_BYTES // max(source.resample_bytes, 1)))
    with terminal_progress(total=resamples, label="intervals", unit="resample") as bar:
        for start in range(0, resamples, width):
            part = slice(start, min(start + width, resamples))
            curves = source.curves(np.ascontiguousarray(counts[:, part], np.int32))
            for place, statistic in enumerate(statistics):
                found = source.read(statistic, curves)
                if found is None:
                    continue
                values[place, part] = mean_of_defined(found)
                if place < each:
                    kept[place, :, part] = found
            bar.update(part.stop - part.start)
    return Replicates(values, kept)


class ResampledCurves:
    """Data that all resamples share: the ranking and the requested statistics."""

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
            (area, cap): _lane(self.ranked, area, self.axes.max_dets[cap])
            for (area, cap) in self.wanted
        }
        truth_image = cells.truth_cell % max(cells.images, 1)
        # images of the truths that count, per area range and by category
        self.truths = {
            area: (
                _starts(cells.truth_bucket[counts], self.ranked.buckets).astype(np.int32),
                truth_image[counts].astype(np.int32),
            )
            for area in sorted({area for area, _ in self.wanted})
            for counts in [~evaluation.matching.truth_ignored[:, area]]
        }
        curves = len(self.axes.thresholds) * self.ranked.buckets * len(self.wanted)
        longest = np.bincount(self.ranked.bucket).max(initial=0)
        self.resample_bytes = 16 * curves + _ROW_BYTES * int(longest)

    def curves(self, weights: np.ndarray) -> dict:
        """(2, T, K, B) mean precision over the recall grid, and recall, per range and cap.

        `weights` are (I, B); NaN for categories without truths.
        """
        needed = {}
        for area, truths in self.truths.items():
            total = count_truths(weights, *truths)
            # totals take few different values, so the table has few rows
            totals, row = np.unique(total, return_inverse=True)
            table = hits_needed(totals, self.axes.recall_grid)
            needed[area] = total, row.reshape(total.shape), table
        shape = (2, len(self.axes.thresholds), self.ranked.buckets, weights.shape[1])
        out = {}
        for (area, cap), lane in self.lanes.items():
            values = out[area, cap] = np.full(shape, np.nan)
            resampled_curves(  # type: ignore[call-arg]  # the lane is seven arrays
                weights, *needed[area], *lane, self.wanted[area, cap], *values
            )
        return out

    def read(self, statistic: Statistic, curves: dict) -> np.ndarray | None:
        """(K, B) mean over its thresholds, for the members of its group; None if not evaluated."""
        picked = pick(statistic, self.axes)
        one_group = statistic.frequency is not None or statistic.members is not None
        if picked is None or (one_group and self.pooled):
            return None
        threshold, *key = picked
        values = curves[tuple(key)][0 if statistic.of == "precision" else 1]
        if statistic.members is not None:
            values = values[:, list(statistic.members)]
        values = values.mean(axis=0) if threshold is None else values[threshold].copy()
        if statistic.frequency is not None:
            values[[group != statistic.frequency for group in self.groups]] = np.nan
        return values


def _lane(ranked: Ranked, area: int, cap: int) -> tuple[np.ndarray, ...]:
    """Rows and events of one area range and cap, as arguments of `resampled_curves`."""
    within = ranked.ranks < cap if cap >= 0 else np.ones(len(ranked.ranks), bool)
    counted = within & ranked.counted[:, area]
    rows = np.flatnonzero(counted)
    row_start = _starts(ranked.bucket[rows], ranked.buckets)
    place = ranked.place
    bucket, image = ranked.bucket[place], ranked.image[place]
    # number of counted rows of the category up to each candidate
    upto = np.searchsorted(rows, place, side="right") - row_start[bucket]
    hits = ranked.hits[area] & within[place]
    # a hit counts even outside of the area range; a detection at an ignored truth never counts
    change = (hits & ~counted[place]).astype(np.int64)
    change -= ranked.excused[area] & counted[place]
    threshold, event = np.nonzero(hits | (change != 0))
    lane = (
        *(row_start, ranked.image[rows]),
        _starts(threshold * ranked.buckets + bucket[event], len(hits) * ranked.buckets),
        *(image[event], upto[event], hits[threshold, event], change[threshold, event]),
    )
    # int32 halves the bytes to read per resample; a ranking has fewer than 2^31 rows
    return tuple(array.astype(np.int32) for array in lane)


def _starts(bucket: np.ndarray, buckets: int) -> np.ndarray:
    """(K + 1,) start of each bucket, and the end; the buckets ascend."""
    return np.searchsorted(bucket, np.arange(buckets + 1))
