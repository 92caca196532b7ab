"""Which block of a backbone is at a depth."""

from __future__ import annotations

from fractions import Fraction
from math import floor


def nearest_block(depth: float, count: int) -> int:
    """Number, from 1, of the block of `count` that is nearest to `depth`; of two, the deeper one.

    Block i of n is at depth i / n, so the last is at 1.
    """
    # from its decimals: 0.29 of 50 blocks is 14.5, and less in binary
    return min(max(floor(Fraction(str(depth)) * count + Fraction(1, 2)), 1), count)
