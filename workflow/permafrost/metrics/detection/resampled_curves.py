"""The compiled loop of `resampled`: precision and recall of every category on every resample.

A module of its own, so that only what computes such intervals loads the compiler.
"""

from __future__ import annotations

import numba
import numpy as np

from permafrost.metrics.detection.accumulate import EPS

_NEVER = np.iinfo(np.int64).max


@numba.njit(cache=True, nogil=True)
def count_truths(weights, truth_start, truth_image, total):
    """Write into `total` (K, B) how many truths of each category every resample holds; see `resampled_curves`."""
    for k in range(len(total)):
        for b in range(len(weights)):
            drawn = weights[b]
            for i in range(truth_start[k], truth_start[k + 1]):
                total[k, b] += drawn[truth_image[i]]


# the compiler takes plain arrays, no dataclasses: fourteen parameters
@numba.njit(cache=True, nogil=True)
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
):
    """Write the mean precision over the recall grid, and the recall, of every curve.

    Only hits raise precision, and a recall is first reached at a hit, so hits are walked and no other rows,
    but for those that a threshold leaves out. Of the hits between two points of the grid only the largest
    precision matters.

    Parameters
    ----------
    weights : (B, I) how often each image is in each resample.
    total : (K, B) truths that count, see `count_truths`.
    needed_row, needed : hits that reach each point of the recall grid, ascending: those of category k in
        resample b are ``needed[needed_row[k, b]]`` (R,), as of `accumulate.hits_needed`.
    row_start, row_image : images of the detections that count, by category, best score first: those of
        category k are ``row_image[row_start[k]:row_start[k + 1]]``.
    event_start, event_image, event_upto : detections at which a curve changes, by threshold and category
        (curve ``t * K + k``), best score first: the image, and the rows of the category up to there.
    event_hit, event_change : of each, whether it is a hit (0 or 1), and what it adds to the rows that
        count: 1 for a hit that is no row, -1 for a row that is not counted for this threshold.
    precise : whether precision is wanted; else only recall is written.
    precision, recall : (T, K, B) to fill; left alone where a resample holds no truth of a category.
    """
    thresholds, categories = recall.shape[:2]
    steps = needed.shape[1]
    running = np.zeros(np.max(np.append(np.diff(row_start), 0)) + 1, np.int64)
    highest, points = np.empty(steps), np.empty(steps)
    # resamples within categories: what a category holds stays in the cache
    for k in range(categories):
        rows = row_image[row_start[k] : row_start[k + 1]]
        for b in range(len(weights)):
            drawn = weights[b]
            if total[k, b] == 0:
                continue
            asked = needed[needed_row[k, b]]
            if precise:
                for i in range(len(rows)):
                    running[i + 1] = running[i] + drawn[rows[i]]
            for t in range(thresholds):
                curve = t * categories + k
                found = 0
                if not precise:
                    for e in range(event_start[curve], event_start[curve + 1]):
                        found += np.int64(drawn[event_image[e]]) * event_hit[e]
                    recall[t, k, b] = found / total[k, b]
                    continue
                moved, reached = 0, 0
                # recall 0 asks for no hit, but its precision is that of a hit
                wanted = max(1, asked[0])
                best_found, best_seen = 0, 1
                stretches = 0
                # without a branch on images that were not drawn: they change no sum, and cost more to predict
                for e in range(event_start[curve], event_start[curve + 1]):
                    copies = np.int64(drawn[event_image[e]])
                    found += copies * event_hit[e]
                    moved += copies * event_change[e]
                    seen = running[event_upto[e]] + moved
                    if found >= wanted:
                        now = reached
                        while now < steps and asked[now] <= found:
                            now += 1
                        highest[stretches] = best_found / (best_seen + EPS)
                        points[stretches] = now - reached
                        stretches += 1
                        reached = now
                        wanted = asked[now] if now < steps else _NEVER
                        best_found, best_seen = found, seen
                    # of equal ratios the later is the higher: EPS shows beside 1, not beside more
                    better = found * best_seen >= best_found * seen
                    best_found = found if better else best_found
                    best_seen = seen if better else best_seen
                # `highest` is that of the stretch before the points it stands beside
                envelope, area = best_found / (best_seen + EPS), 0.0
                for s in range(stretches - 1, -1, -1):
                    area += envelope * points[s]
                    envelope = max(envelope, highest[s])
                precision[t, k, b] = area / steps
                recall[t, k, b] = found / total[k, b]
