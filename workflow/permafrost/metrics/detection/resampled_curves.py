"""Precision and recall of every category on every resample, for `resampled`; vectorised over resamples."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.detection.accumulate import EPS


def count_truths(weights, truth_start, truth_image) -> np.ndarray:
    """(K, B) number of truths of each category in each resample; see `resampled_curves`."""
    total = np.zeros((len(truth_start) - 1, weights.shape[1]), np.int64)
    for k in range(len(total)):
        weights[truth_image[truth_start[k] : truth_start[k + 1]]].sum(axis=0, out=total[k])
    return total


def resampled_curves(
    weights,
    total,
    needed_row,
    needed,
    row_start,
    row_image,
    event_start,
    event_image,
    event_upto,
    event_hit,
    event_change,
    precise,
    precision,
    recall,
) -> None:
    """Write the mean precision over the recall grid, and the recall, of every curve.

    Only hits raise precision, and a recall is first reached at a hit, so arrays have rows for hits only.

    Parameters
    ----------
    weights : (I, B) how often each image is in each resample.
    total : (K, B) number of truths that count, see `count_truths`.
    needed_row, needed : number of hits for each point of the recall grid, ascending, see
        `accumulate.hits_needed`: ``needed[needed_row[k, b]]`` (R,) for category k in resample b.
    row_start, row_image : images of the detections that count, by category, best score first:
        ``row_image[row_start[k]:row_start[k + 1]]`` for category k.
    event_start, event_image, event_upto : detections at which a curve changes, by threshold and category
        (curve ``t * K + k``), best score first: the image, and the number of rows of the category up to it.
    event_hit, event_change : whether each event is a hit (0 or 1), and its change of the number of counted
        rows: 1 for a hit that is not a row, -1 for a row that does not count at this threshold.
    precise : whether to write precision; recall is always written.
    precision, recall : (T, K, B) arrays of NaN to fill; NaN remains if a resample has no truth of a category.
    """
    thresholds, categories = recall.shape[:2]
    hits, first_hit = _split(event_hit, event_start)
    changes, first_change = _split(event_change, event_start)
    hit_image, hit_upto = event_image[hits], event_upto[hits]
    change_image, change = event_image[changes], event_change[changes][:, None]
    # number of changes up to each hit
    place = np.searchsorted(changes, hits, side="right")
    reached = _points_reached(needed)
    for k in range(categories):
        absent = total[k] == 0
        if absent.all():
            continue
        truths, row = np.maximum(total[k], 1), (needed_row[k] * reached.shape[1]).astype(np.int32)
        if precise:
            seen_rows = _running(weights[row_image[row_start[k] : row_start[k + 1]]])
        for t in range(thresholds):
            curve = t * categories + k
            own = slice(first_hit[curve], first_hit[curve + 1])
            drawn = weights[hit_image[own]]
            if own.start == own.stop or not precise:
                recall[t, k] = drawn.sum(axis=0) / truths
                precision[t, k] = 0.0 if precise else np.nan
                continue
            found = drawn.cumsum(axis=0, dtype=np.int32)
            recall[t, k] = found[-1] / truths
            seen = seen_rows[hit_upto[own]]
            other = slice(first_change[curve], first_change[curve + 1])
            if other.start < other.stop:
                moved = _running(weights[change_image[other]] * change[other])
                seen += moved[place[own] - other.start]
            precision[t, k] = _precision_sum(found, seen, reached, row) / needed.shape[1]
        recall[:, k, absent] = precision[:, k, absent] = np.nan


def _split(values, event_start) -> tuple[np.ndarray, np.ndarray]:
    """The events where `values` are not 0, and the start of each curve among them."""
    events = np.flatnonzero(values)
    return events, np.searchsorted(events, event_start)


def _running(rows: np.ndarray) -> np.ndarray:
    """(N + 1, B) cumulative sums of the rows, from 0 on."""
    sums = np.zeros((len(rows) + 1, rows.shape[1]), np.int32)
    rows.cumsum(axis=0, out=sums[1:])
    return sums


def _points_reached(needed: np.ndarray) -> np.ndarray:
    """Points of the recall grid that a number of hits reaches: a row per row of `needed`, a column per number.

    Larger numbers reach as many as the last column.
    """
    # recall 0 needs no hit, but its precision is read at a hit
    needed = np.maximum(needed, 1)
    reached = np.zeros((len(needed), needed.max(initial=0) + 1), np.int32)
    np.add.at(reached, (np.arange(len(needed))[:, None], needed), 1)
    return np.cumsum(reached, axis=1, dtype=np.int32)


def _precision_sum(found, seen, reached, row) -> np.ndarray:
    """(B,) sum of precision over the points of the recall grid.

    Parameters
    ----------
    found, seen : (H, B) number of hits and of rows up to each hit; overwritten.
    reached, row : result of `_points_reached`, and (B,) start of each resample's row in it.
    """
    precision = seen + EPS
    np.divide(found, precision, out=precision)
    backwards = precision[::-1]
    np.maximum.accumulate(backwards, axis=0, out=backwards)
    np.minimum(found, reached.shape[1] - 1, out=found)
    found += row
    points = reached.take(found, mode="clip")
    # number of points that each hit is the first to reach
    precision[0] *= points[0]
    precision[1:] *= points[1:] - points[:-1]
    # NumPy adds rows in order, but a single column pairwise; cumsum adds it in order, too
    one = precision.shape[1] == 1
    return np.cumsum(backwards, axis=0)[-1] if one else backwards.sum(axis=0)
