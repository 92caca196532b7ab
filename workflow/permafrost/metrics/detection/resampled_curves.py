"""The compiled loop of `resampled`: precision and recall of every category on every resample.

A module of its own, so that only what computes such intervals loads the compiler.
"""

from __future__ import annotations

import numba
import numpy as np

_EPS = np.spacing(1)


@numba.njit(cache=True, nogil=True)
def resampled_curves(
    weights,
    truth_start,
    truth_image,
    row_start,
    row_image,
    event_start,
    event_image,
    event_upto,
    event_hit,
    event_change,
    grid,
    before,
    precise,
    precision,
    recall,
):
    """Write the mean precision over the recall grid, and the recall, of every curve.

    Only hits raise precision, and a recall is first reached at a hit, so hits are walked and no other rows,
    but for those that a threshold leaves out. Of the hits between two points of the grid only the largest
    precision matters.

    Parameters
    ----------
    weights : (B, I) how often each image is in each resample.
    truth_start, truth_image : images of the truths that count, by category: those of category k are
        ``truth_image[truth_start[k]:truth_start[k + 1]]``.
    row_start, row_image : images of the detections that count, by category, best score first.
    event_start, event_image, event_upto : detections at which a curve changes, by threshold and category
        (curve ``t * K + k``), best score first: the image, and the rows of the category up to there.
    event_hit, event_change : of each, whether it is a hit (0 or 1), and what it adds to the rows that
        count: 1 for a hit that is no row, -1 for a row that is not counted for this threshold.
    grid : (R,) ascending recalls in [0, 1].
    before : as of `reached_before`.
    precise : whether precision is wanted; else only recall is written.
    precision, recall : (T, K, B) to fill; left alone where a resample holds no truth of a category.
    """
    thresholds, categories = recall.shape[:2]
    steps = len(grid)
    running = np.zeros(np.max(np.append(np.diff(row_start), 0)) + 1, np.int64)
    highest, points = np.empty(steps), np.empty(steps)
    # resamples within categories: what a category holds stays in the cache
    for k in range(categories):
        rows = row_image[row_start[k] : row_start[k + 1]]
        for b in range(len(weights)):
            drawn = weights[b]
            total = 0
            for i in range(truth_start[k], truth_start[k + 1]):
                total += drawn[truth_image[i]]
            if total == 0:
                continue
            if precise:
                for i in range(len(rows)):
                    running[i + 1] = running[i] + drawn[rows[i]]
            for t in range(thresholds):
                curve = t * categories + k
                found = 0
                if not precise:
                    for e in range(event_start[curve], event_start[curve + 1]):
                        found += np.int64(drawn[event_image[e]]) * event_hit[e]
                    recall[t, k, b] = found / total
                    continue
                moved, reached = 0, 0
                # recall 0 asks for no hit, but its precision is that of a hit
                needed = max(1, _hits_needed(total, grid, 0))
                best_found, best_seen = 0, 1
                stretches = 0
                # without a branch on images that were not drawn: they change no sum, and cost more to predict
                for e in range(event_start[curve], event_start[curve + 1]):
                    copies = np.int64(drawn[event_image[e]])
                    found += copies * event_hit[e]
                    moved += copies * event_change[e]
                    seen = running[event_upto[e]] + moved
                    if found >= needed:
                        # a crowd that counts can be hit many times, which takes recall beyond 1
                        now = _points_reached(min(found / total, 1.0), grid, before)
                        highest[stretches] = best_found / (best_seen + _EPS)
                        points[stretches] = now - reached
                        stretches += 1
                        reached = now
                        needed = _hits_needed(total, grid, reached)
                        best_found, best_seen = found, seen
                    better = found * best_seen > best_found * seen
                    best_found = found if better else best_found
                    best_seen = seen if better else best_seen
                # `highest` is that of the stretch before the points it stands beside
                envelope, area = best_found / (best_seen + _EPS), 0.0
                for s in range(stretches - 1, -1, -1):
                    area += envelope * points[s]
                    envelope = max(envelope, highest[s])
                precision[t, k, b] = area / steps
                recall[t, k, b] = found / total


def reached_before(grid: np.ndarray) -> np.ndarray:
    """How many points of the grid lie at or before 0, 1/n, …, 1: where `_points_reached` begins."""
    steps = max(len(grid) - 1, 1)
    return np.searchsorted(grid, np.linspace(0.0, 1.0, steps + 1), side="right")


@numba.njit(cache=True)
def _points_reached(recall, grid, before):
    """How many points of the grid are at most `recall`, itself at most 1.

    On an even grid the place to begin at is off by one at most; a search costs much more.
    """
    place = before[int(recall * (len(before) - 1))]
    while place < len(grid) and grid[place] <= recall:
        place += 1
    while place > 0 and grid[place - 1] > recall:
        place -= 1
    return place


@numba.njit(cache=True)
def _hits_needed(total, grid, reached):
    """The smallest number of hits whose recall, as a float, reaches the next point of the grid."""
    if reached == len(grid):
        return np.iinfo(np.int64).max
    needed = int(np.ceil(grid[reached] * total)) - 1
    while needed / total < grid[reached]:
        needed += 1
    return needed
