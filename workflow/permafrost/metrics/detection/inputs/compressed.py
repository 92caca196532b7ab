"""Many compressed masks without an object for each: what a file of detections mostly consists of."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from permafrost.metrics.detection.masks.text import Text


@dataclass(frozen=True, eq=False)
class Compressed(Sequence):
    """N segmentations {"size": [height, width], "counts": string}, made when they are asked for.

    Attributes
    ----------
    counts : N strings of ASCII characters, unchecked.
    sizes : (N, 2) int64 heights and widths, unchecked.
    """

    counts: Text
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, row: int) -> dict:
        return {"size": self.sizes[row].tolist(), "counts": self.counts[row]}

    def take(self, rows: np.ndarray) -> Compressed:
        """Those at `rows`, in that order."""
        if len(rows) == len(self) and (np.diff(rows) == 1).all():
            return self
        return Compressed(self.counts.take(rows), self.sizes[rows])


def compacted(segmentations: list | Compressed) -> list | Compressed:
    """The same, as `Compressed` where all are compressed and have a size of two integers."""
    if isinstance(segmentations, Compressed) or set(map(type, segmentations)) != {dict}:
        return segmentations
    try:
        sizes = list(map(itemgetter("size"), segmentations))
        counts = list(map(itemgetter("counts"), segmentations))
        if set(map(type, counts)) != {str} or not _are_lists_of_two(sizes):
            return segmentations
        flat = np.frombuffer(array("q", chain.from_iterable(sizes)), np.int64)
    except (KeyError, OverflowError, TypeError):
        return segmentations
    # true and false pass for 1 and 0 here, which no size of an ordinary image is
    if flat.min(initial=2) < 2 and not are_pairs(sizes):
        return segmentations
    text = Text.of(counts)
    # other characters are wrong: they are shown as they were given
    ordinary = not len(text.codes) or text.codes.max() < 128
    return Compressed(text, flat.reshape(-1, 2)) if ordinary else segmentations


def are_pairs(sizes: list) -> bool:
    """Whether all are lists of two integers."""
    return _are_lists_of_two(sizes) and set(map(type, chain.from_iterable(sizes))) <= {int}


def _are_lists_of_two(sizes: list) -> bool:
    return set(map(type, sizes)) <= {list, tuple} and set(map(len, sizes)) <= {2}


def taken(segmentations: list | Compressed, rows: np.ndarray) -> list | Compressed:
    """Those at `rows`, in that order."""
    if isinstance(segmentations, Compressed):
        return segmentations.take(rows)
    return [segmentations[row] for row in rows.tolist()]
