"""Average precision and hits of many queries that rank the same gallery."""

from __future__ import annotations

import numpy as np


def average_precisions(distances: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """(Q,) average precision of each query; NaN for a query without a relevant image.

    Images at equal distances are one step of the ranking: all have the precision after the last of
    them (as in scikit-learn's ``average_precision_score``).

    Parameters
    ----------
    distances : (Q, G) distances of gallery images; infinite for images outside of the query's gallery.
    relevant : (Q, G) bool.
    """
    order = np.argsort(distances, axis=1, kind="stable")
    ranked = np.take_along_axis(distances, order, axis=1)
    relevance = np.take_along_axis(relevant, order, axis=1)
    found = np.cumsum(relevance, axis=1)
    count = ranked.shape[1]
    # last position of the step of each position
    ends = np.where(ranked[:, 1:] != ranked[:, :-1], np.arange(count - 1), count - 1)
    last = np.full((len(ranked), 1), count - 1)
    ends = np.concatenate([ends, last], axis=1)[:, ::-1]
    ends = np.minimum.accumulate(ends, axis=1)[:, ::-1]
    precision = np.take_along_axis(found, ends, axis=1) / (ends + 1.0)
    total = found[:, -1]
    summed = np.where(relevance, precision, 0.0).sum(axis=1)
    return np.divide(summed, total, out=np.full(len(total), np.nan), where=total > 0)


def found_within(distances: np.ndarray, relevant: np.ndarray, ks) -> np.ndarray:
    """(Q, len(ks)) number of relevant images among the nearest k; ties go to the lower index.

    Parameters as in `average_precisions`; every k is at most G.
    """
    order = np.argsort(distances, axis=1, kind="stable")[:, : max(ks)]
    found = np.cumsum(np.take_along_axis(relevant, order, axis=1), axis=1)
    return found[:, np.asarray(ks) - 1]
