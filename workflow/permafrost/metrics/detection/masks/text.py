"""COCO's strings as the runs that they stand for, many strings in one flat pass.

The passes are over all characters of a block at once. Most numbers have one digit; so every number is
first read as its last digit alone, and the few longer ones are read once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.metrics.detection.ragged import offsets_of, owners_of


@dataclass(frozen=True)
class LongNumbers:
    """Numbers of several digits.

    Attributes
    ----------
    ends, sizes : place of the last digit of each, and how many digits it has.
    which : how many numbers, of one digit or of several, come before it in the block.
    """

    ends: np.ndarray
    sizes: np.ndarray
    which: np.ndarray


@dataclass(frozen=True)
class Text:
    """N strings as one.

    Attributes
    ----------
    codes : flat uint8 characters.
    offsets : (N + 1,) where each string starts.
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
        """From bytes, or from strings of characters."""
        if set(map(type, strings)) == {str}:
            joined = "".join(strings)
            if joined.isascii():
                return cls._of(joined.encode(), strings)
        # what is no ASCII is no digit either
        coded = [s.encode("utf-8", "surrogatepass") if type(s) is str else s for s in strings]
        return cls._of(b"".join(coded), coded)

    @classmethod
    def _of(cls, joined: bytes, strings) -> Text:
        return cls(np.frombuffer(joined, np.uint8), offsets_of(list(map(len, strings))))

    def part(self, block: slice) -> Text:
        """A view of neighbouring strings."""
        offsets = self.offsets[block.start : block.stop + 1]
        return Text(self.codes[offsets[0] : offsets[-1]], offsets - offsets[0])

    def without(self, rows: list[int]) -> Text:
        """The same strings, those at `rows` empty."""
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
        """Flat uint8, 0 to 63; above that where the character is not of the alphabet."""
        return self.codes - np.uint8(48)

    @cached_property
    def going(self) -> np.ndarray:
        """Places of the digits that another one of the same number follows."""
        return np.flatnonzero(self.digits > 31)

    @cached_property
    def long_numbers(self) -> LongNumbers:
        """The numbers of several digits; every string must end with the end of a number."""
        last = np.flatnonzero(np.diff(self.going, append=-1) != 1)
        ends = self.going[last] + 1
        return LongNumbers(ends, np.diff(last, prepend=-1) + 1, self.going[last] - last)

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pairs of runs per mask, and the flat lengths of their background and their foreground.

        A mask whose last run is of the background ends with a pair without foreground. All
        characters must be digits, all numbers finished and of at most seven digits; the runs are not
        checked.
        """
        lengths, unpaired, background, foreground = self._numbers()
        filled = lengths > 0
        ends = np.cumsum(lengths)
        first, sizes = (ends - lengths)[filled], lengths[filled]
        # run 0 takes part in no chain of differences
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
        """Pairs per mask, whether one was completed with a 0, and what is written in each place."""
        digits, offsets = self.digits, self.offsets
        counts = np.diff(offsets) - np.diff(np.searchsorted(self.going, offsets))
        odd = counts & 1
        unpaired = odd == 1
        # the last digit with its sign
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
        """Numbers of several digits in full."""
        last = (self.digits[ends] << 3).view(np.int8) >> 3
        values = last.astype(np.int64) << 5 * (sizes - 1)
        starts = ends - sizes + 1
        for place in range(int(sizes.max(initial=1)) - 1):
            longer = np.flatnonzero(sizes - 1 > place)
            digit = (self.digits[starts[longer] + place] & 31).astype(np.int64)
            values[longer] |= digit << 5 * place
        return values
