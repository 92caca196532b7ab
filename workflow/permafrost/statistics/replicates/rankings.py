"""Average precision on all resamples of a ranking that is sorted once.

With w the counts of a resample, and thresholds at the ends of tied scores that contain a positive::

    TP_g = sum of w over positives down to threshold g      N_g = the same over all entries
    AP   = sum_g (TP_g - TP_{g-1}) TP_g / N_g / TP_last

Between two such thresholds only the sum of w matters, so N is a running sum of segment totals.
"""

from __future__ import annotations

import numpy as np

from permafrost.statistics.replicates.totals import Segments
from permafrost.statistics.resampling.resamples import Resamples

# resamples whose running sums are computed together, so that they stay in the second-level cache
_TOGETHER = 8
# bytes of these running sums: with millions of thresholds, fewer resamples are processed together
_SUMS_BYTES = 64 << 20
# bytes of segment totals at a time; with millions of entries, fewer resamples at once
_TOTALS_BYTES = 64 << 20


class Ranking:
    """Entries ranked by score, for average precision on any resamples.

    Parameters
    ----------
    target : (M,) bool.
    scores : (M,) floats without NaN.
    units : (M / L,) unit of each item, whose L entries are adjacent; of each entry if L is 1.
    """

    def __init__(self, target: np.ndarray, scores: np.ndarray, units: np.ndarray) -> None:
        # there may be many millions of entries: use the shortest integers and free arrays early
        entries, per_item = len(scores), len(scores) // max(1, len(units))
        order = np.argsort(-scores)
        ordered = scores[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[:entries])
        del ordered
        positive = target[order]
        if per_item > 1:
            order //= per_item
        short = np.int32 if max(entries, len(units)) < 1 << 31 else np.int64
        units = units.astype(short)[order]
        del order
        positives = np.zeros(entries + 1, short)
        np.cumsum(positive, out=positives[1:])
        # thresholds without a new positive add nothing, nor do entries below the last positive
        gaining = np.diff(positives[ends + 1], prepend=0) > 0
        stops = ends[gaining] + 1
        self.everything = Segments(units, np.concatenate(([0], stops)))
        self.positives = Segments(units[positive], np.concatenate(([0], positives[stops])))

    def average_precision(self, resamples: Resamples) -> np.ndarray:
        """(B,) average precision on each resample; NaN if no positive was drawn."""
        thresholds = len(self.everything)
        if thresholds == 0:
            return np.full(len(resamples), np.nan)
        step = max(_TOGETHER, _TOTALS_BYTES // (2 * thresholds * resamples.counts.itemsize))
        parts = (resamples.part(start, start + step) for start in range(0, len(resamples), step))
        return np.concatenate(
            [
                _step_function(self.everything.totals(part), self.positives.totals(part))
                for part in parts
            ]
        )


def _step_function(everything: np.ndarray, positives: np.ndarray) -> np.ndarray:
    """Average precision from (G, B) weights added at each threshold."""
    thresholds, resamples = everything.shape
    result = np.full(resamples, np.nan)
    together = min(_TOGETHER, resamples, max(1, _SUMS_BYTES // (24 * thresholds)))
    largest = thresholds * int(everything.max(initial=0))
    kind = np.int32 if largest < 1 << 31 else np.int64
    retrieved = np.empty((together, thresholds), kind)
    found, gained = np.empty_like(retrieved), np.empty((together, thresholds))
    precision = np.empty_like(gained)
    for start in range(0, resamples, together):
        stop = min(start + together, resamples)
        part = slice(0, stop - start)
        retrieved[part] = everything[:, start:stop].T
        found[part] = positives[:, start:stop].T
        gained[part] = found[part]
        np.cumsum(retrieved[part], axis=1, out=retrieved[part])
        np.cumsum(found[part], axis=1, out=found[part])
        # before any entry is drawn both sums are 0 and nothing is gained; running sums start there
        empty = max(int(np.searchsorted(row, 1)) for row in retrieved[part])
        np.maximum(retrieved[:, :empty], 1, out=retrieved[:, :empty])
        np.divide(found[part], retrieved[part], out=precision[part])
        total = found[part, -1]
        area = np.vecdot(gained[part], precision[part])
        np.divide(area, total, out=result[start:stop], where=total > 0)
    return result
