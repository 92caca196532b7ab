"""Decode COCO's strings to runs, many strings in one flat pass.

Every step processes all characters of a block at once. Most numbers have one digit, so every number is
first read as its last digit, and the few longer ones are then read in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from permafrost.metrics.detection.ragged import offsets_of, owners_of


@dataclass(frozen=True)
class LongNumbers:
    """Numbers of several digits.

    Attributes
    ----------
    ends, sizes : position of the last digit and number of digits of each.
    which : index of each among all numbers of the block.
    """

    ends: np.ndarray
    sizes: np.ndarray
    which: np.ndarray


@dataclass(frozen=True)
class Text:
    """N strings in one array.

    Attributes
    ----------
    codes : flat uint8 characters.
    offsets : (N + 1,) first character of each string.
    """

    codes: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> str:
        codes = self.codes[self.offsets[row] : self.offsets[row + 1]]
        return codes.tobytes().decode("utf-8", "surrogatepass")

    @classmethod
    def of(cls, strings: list[bytes] | list[str]) -> Text:
        """From bytes or str."""
        if set(map(type, strings)) == {str}:
            joined = "".join(cast(list[str], strings))
            if joined.isascii():
                return cls._of(joined.encode(), strings)
        # non-ASCII characters become bytes that are not digits, and are refused later
        coded = [
            s.encode("utf-8", "surrogatepass") if type(s) is str else cast(bytes, s)
            for s in strings
        ]
        return cls._of(b"".join(coded), coded)

    @classmethod
    def _of(cls, joined: bytes, strings) -> Text:
        return cls(np.frombuffer(joined, np.uint8), offsets_of(list(map(len, strings))))

    def part(self, block: slice) -> Text:
        """A view of consecutive strings."""
        offsets = self.offsets[block.start : block.stop + 1]
        return Text(self.codes[offsets[0] : offsets[-1]], offsets - offsets[0])

    def without(self, rows: list[int]) -> Text:
        """The same strings, with those at `rows` empty."""
        kept = np.ones(len(self), bool)
        kept[rows] = False
        lengths = np.diff(self.offsets)
        return Text(self.codes[np.repeat(kept, lengths)], offsets_of(np.where(kept, lengths, 0)))

    def take(self, rows: np.ndarray) -> Text:
        """The strings at `rows`, in that order."""
        content, ends = memoryview(self.codes), self.offsets.tolist()
        strings = [content[ends[row] : ends[row + 1]] for row in rows.tolist()]
        return Text._of(b"".join(strings), strings)

    @cached_property
    def digits(self) -> np.ndarray:
        """Flat uint8, 0 to 63; larger for characters outside of the alphabet."""
        return self.codes - np.uint8(48)

    @cached_property
    def going(self) -> np.ndarray:
        """Positions of all digits but the last of each number."""
        return np.flatnonzero(self.digits > 31)

    @cached_property
    def long_numbers(self) -> LongNumbers:
        """The numbers of several digits; every string must end with the end of a number."""
        last = np.flatnonzero(np.diff(self.going, append=-1) != 1)
        ends = self.going[last] + 1
        return LongNumbers(ends, np.diff(last, prepend=-1) + 1, self.going[last] - last)

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of pairs of runs per mask, and the flat lengths of background and foreground.

        A mask whose last run is background ends with a pair without foreground. All
        characters must be digits, all numbers complete and of at most seven digits; the runs are not
        checked.
        """
        lengths, unpaired, background, foreground = self._numbers()
        filled = lengths > 0
        ends = np.cumsum(lengths)
        first, sizes = (ends - lengths)[filled], lengths[filled]
        # run 0 is in no chain of differences
        plain = background[first]
        background[first] = 0
        np.cumsum(background, out=background)
        background -= np.repeat(background[first], sizes)
        background[first] = plain
        written = foreground[first]
        np.cumsum(foreground, out=foreground)
        foreground -= np.repeat(foreground[first] - written, sizes)
        foreground[ends[unpaired] - 1] = 0
        return lengths, background, foreground

    def _numbers(self):
        """Pairs per mask, whether one was completed with a 0, and the written number of each run."""
        digits, offsets = self.digits, self.offsets
        counts = np.diff(offsets) - np.diff(np.searchsorted(self.going, offsets))
        odd = counts & 1
        unpaired = odd == 1
        # the last digit, with its sign
        values = (digits[digits < 32] << 3).view(np.int8) >> 3
        values = np.insert(values, np.cumsum(counts)[unpaired], 0)
        sides = values[::2].astype(np.int64), values[1::2].astype(np.int64)
        long = self.long_numbers
        place = long.which + (np.cumsum(odd) - odd)[owners_of(offsets, long.ends)]
        for side, written in enumerate(sides):
            mine = place & 1 == side
            written[place[mine] >> 1] = self._read(long.ends[mine], long.sizes[mine])
        return (counts + odd) >> 1, unpaired, *sides

    def _read(self, ends: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Read numbers of several digits in full."""
        last = (self.digits[ends] << 3).view(np.int8) >> 3
        values = last.astype(np.int64) << 5 * (sizes - 1)
        starts = ends - sizes + 1
        for place in range(int(sizes.max(initial=1)) - 1):
            longer = np.flatnonzero(sizes - 1 > place)
            digit = (self.digits[starts[longer] + place] & 31).astype(np.int64)
            values[longer] |= digit << 5 * place
        return values
