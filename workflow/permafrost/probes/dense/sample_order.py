"""The order in which training sees samples: shuffled blocks, shuffled again within windows.

A block is a run of samples that lie in one file; blocks are drawn in random order, a window of several
blocks is shuffled as one. So the disk is read sequentially, a bounded number of samples is held, and
the order depends on the seed and the store only, not on whether the split is held in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# what a window may hold; it and the next one, which is read meanwhile, are in memory together
WINDOW_BYTES = 64 * 2**20
MIN_BLOCKS = 4


@dataclass(frozen=True)
class Windows:
    """How `count` samples are cut: samples in a block, blocks in a window."""

    count: int
    block: int
    blocks_per_window: int

    @classmethod
    def of(cls, count: int, block: int, sample_bytes: int, batch: int) -> Windows:
        """Windows of about `WINDOW_BYTES`, of at least `MIN_BLOCKS` blocks and two batches."""
        block = max(1, min(block, max(count, 1)))
        rows = max(MIN_BLOCKS * block, 2 * batch, WINDOW_BYTES // max(1, sample_bytes))
        return cls(count, block, max(1, rows // block))

    def in_order(self) -> list[np.ndarray]:
        """Rows of each window as they lie in the store, for a split that is only looked at."""
        rows = self.block * self.blocks_per_window
        return [
            np.arange(start, min(start + rows, self.count)) for start in range(0, self.count, rows)
        ]

    def shuffled(self, seed: int, epoch: int) -> list[np.ndarray]:
        """Rows of each window in the order in which `epoch` trains on them."""
        rng = np.random.default_rng([seed, epoch])
        starts = rng.permutation(-(-self.count // self.block)) * self.block
        windows = []
        for first in range(0, len(starts), self.blocks_per_window):
            blocks = [
                np.arange(start, min(start + self.block, self.count))
                for start in starts[first : first + self.blocks_per_window]
            ]
            windows.append(rng.permutation(np.concatenate(blocks)))
        return windows


def batch_sizes(count: int, batch: int) -> list[int]:
    """Sizes of the batches of an epoch; a last one of a single sample joins the one before it.

    Batch normalisation cannot work on a batch of one sample whose maps have one pixel.
    """
    sizes = [batch] * (count // batch) + ([count % batch] if count % batch else [])
    if len(sizes) > 1 and sizes[-1] == 1:
        sizes[-2:] = [sizes[-2] + 1]
    return sizes
