"""Sums of rows of a counts array over many segments: the kernel that all statistics share."""

from __future__ import annotations

import numpy as np

from permafrost.statistics.resampling.resamples import Resamples

# bytes gathered at a time, so that they are summed while in the cache
_GATHER_BYTES = 1 << 19


class Segments:
    """Rows of a counts array in consecutive segments, for summation.

    Parameters
    ----------
    rows : (M,) unit indices, segment after segment; a unit may occur many times.
    bounds : (S + 1,) start of each segment in `rows`, and the end; a segment may be empty.
    """

    def __init__(self, rows, bounds) -> None:
        rows = np.asarray(rows)
        # keep short integers: there may be many millions
        self.rows = rows if rows.dtype.kind in "iu" else rows.astype(np.intp)
        self.bounds = np.asarray(bounds, np.intp)

    @classmethod
    def by_label(cls, units, labels, n_labels: int) -> Segments:
        """One segment per label in [0, n_labels): the units of the samples with this label."""
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=n_labels)
        return cls(np.asarray(units)[order], np.concatenate(([0], np.cumsum(sizes))))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def totals(self, resamples: Resamples) -> np.ndarray:
        """(S, B) sums of the (U, B) counts over each segment, without overflow.

        Small counts are added in their own narrow type, in pieces too short to overflow. Only the
        piece sums are added in a wider type, so that one addition handles many one-byte counts. The
        result has the narrowest unsigned type that cannot overflow: widen it before summing.
        """
        counts, peak = resamples.counts, max(1, resamples.peak)
        pieces, owners = _cut(self.bounds, np.iinfo(counts.dtype).max // peak)
        sums = _sum_rows(counts, self.rows, pieces, counts.dtype)
        if len(sums) == len(self):
            return sums
        largest = peak * int(np.diff(self.bounds).max())
        return _sum_rows(sums, np.arange(len(sums)), owners, np.min_scalar_type(largest))


def _cut(bounds: np.ndarray, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut segments into pieces of at most `longest` rows.

    Returns the bounds of the pieces in the rows, and of the segments in the pieces. An empty
    segment gives one empty piece.
    """
    lengths = np.diff(bounds)
    per_segment = np.maximum(1, -(-lengths // longest))
    owners = np.concatenate(([0], np.cumsum(per_segment)))
    place = np.arange(owners[-1]) - np.repeat(owners[:-1], per_segment)
    starts = np.repeat(bounds[:-1], per_segment) + place * longest
    return np.append(starts, bounds[-1]), owners


def _sum_rows(values: np.ndarray, rows: np.ndarray, bounds: np.ndarray, kind) -> np.ndarray:
    """(S, B) sums in the type `kind`; segments of equal length are summed together."""
    width = values.shape[1]
    lengths = np.diff(bounds)
    out = np.zeros((len(lengths), width), kind)
    order = np.argsort(lengths, kind="stable")
    sizes, firsts = np.unique(lengths[order], return_index=True)
    for size, members in zip(sizes, np.split(order, firsts[1:]), strict=True):
        if size == 0:
            continue
        step = max(1, _GATHER_BYTES // (size * width * values.itemsize))
        for start in range(0, len(members), step):
            some = members[start : start + step]
            picked = rows[bounds[some][:, None] + np.arange(size)]
            out[some] = values[picked].sum(axis=1, dtype=kind)
    return out
