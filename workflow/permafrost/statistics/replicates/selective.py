"""The area under the risk-coverage curve on all resamples of entries that are sorted once."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.calibration.selective import areas
from permafrost.statistics.replicates.totals import Segments
from permafrost.statistics.resampling.resamples import Resamples

# bytes of running sums at a time: with many errors, fewer resamples are processed together
_SUMS_BYTES = 64 << 20


class Selection:
    """Entries sorted by falling confidence.

    Parameters
    ----------
    trust, wrong : (N, E), from `metrics.calibration.selective.entries_of`.
    units : (N,) unit of each item.
    """

    def __init__(self, trust: np.ndarray, wrong: np.ndarray, units: np.ndarray) -> None:
        order = np.argsort(-trust.ravel(), kind="stable")
        ordered, wrong = trust.ravel()[order], wrong.ravel()[order]
        units = units[order // trust.shape[1]]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        errors = np.add.reduceat(wrong, starts, dtype=np.int64)
        # the sum over adjacent blocks of right entries is that of one block, whichever are drawn
        right = errors == 0
        starts = starts[~(right & np.append(False, right[:-1]))]
        bounds = np.append(starts, len(ordered))
        self.entries = Segments(units, bounds)
        before = np.concatenate(([0], np.cumsum(wrong)))
        self.errors = Segments(units[wrong], before[bounds])

    def areas(self, resamples: Resamples) -> tuple[np.ndarray, np.ndarray]:
        """(B,) AURC and its excess on each resample."""
        step = max(1, _SUMS_BYTES // (8 * 8 * len(self.entries)))
        parts = (resamples.part(start, start + step) for start in range(0, len(resamples), step))
        found = [areas(self.entries.totals(part), self.errors.totals(part)) for part in parts]
        return tuple(np.concatenate(each) for each in zip(*found, strict=True))
