"""Read chunks of files of detections whose entries differ only in their numbers and masks.

Programs write all entries alike: keys, brackets and spaces are the same text in each, the stencil. A chunk that
is this text over and over has a number in each of its gaps, and all are read at once, without an object for each.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from permafrost.core.identity import unique_keys
from permafrost.metrics.detection.inputs.decimals import short_decimals
from permafrost.metrics.detection.masks.text import Text
from permafrost.metrics.detection.ragged import offsets_of

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_SEPARATOR = re.compile(r"\s*,\s*")
# `short_decimals` reads eight characters before the end of the first number
_MARGIN = b" " * 8
# what stands for an escaped backslash: no JSON has this character
_BACKSLASH = b"\x01"
# floats hold all whole numbers below
_MOST_EXACT = 1 << 53
# largest share of numbers that are read one by one
_MOST_ODD = 0.25


@dataclass(frozen=True)
class Chunk:
    """The numbers of N entries, and the strings of their compressed masks.

    Attributes
    ----------
    numbers : (N, K) float64, in the order of the text.
    whole : (K,) bool: all are written as whole numbers, and floats hold them exactly.
    strings : N strings; None if the entries have none.
    """

    numbers: np.ndarray
    whole: np.ndarray
    strings: Text | None


class Stencil:
    """The text of an entry around its numbers and its string.

    Attributes
    ----------
    entry : the first entry, parsed.
    numbers : how many an entry has.
    """

    def __init__(self, chunk: bytes) -> None:
        """From entries of a file; ValueError if the first is no JSON in ASCII, or has no number."""
        decoded = chunk.decode("ascii")
        self.entry, end = _DECODER.raw_decode(decoded)
        found = _SEPARATOR.match(decoded, end)
        self.separator = found[0].encode() if found else b""
        sample = chunk[:end] + self.separator
        parts = _escaped(sample).split(b'"')
        self.quotes = len(parts) - 1
        self.string = parts.index(b"counts") + 2 if b"counts" in parts else None
        self.tail = b""
        text, _ = self._split(sample)
        starts, ends = _tokens(text)
        self.numbers = len(starts)
        if not self.numbers:
            raise ValueError("no number")
        # before the first number of an entry is the end of the entry before it
        self.tail = text[ends[-1] :]
        before = np.concatenate(([len(_MARGIN)], ends[:-1]))
        self.gaps = starts - before
        self.gaps[0] += len(self.tail)
        texts = [text[start:end] for start, end in zip(before, starts, strict=True)]
        texts[0] = self.tail + texts[0]
        self.around = {
            each: np.flatnonzero([other == each for other in texts]) for each in {*texts}
        }

    def read(self, chunk: bytes) -> Chunk:
        """The numbers and strings of a chunk; ValueError if it differs from the stencil."""
        text, strings = self._split(chunk + self.separator)
        starts, ends = _tokens(text)
        count, rest = divmod(len(starts), self.numbers)
        if rest or text[ends[-1] :] != self.tail or not self._fits(text, starts, ends):
            raise ValueError("other entries")
        if strings is not None and len(strings) != count:
            raise ValueError("other entries")
        numbers, broken = _numbers(text, starts, ends)
        whole = ~broken.reshape(count, -1).any(axis=0)
        return Chunk(numbers.reshape(count, -1), whole, None if strings is None else _text(strings))

    def _fits(self, text: bytes, starts: np.ndarray, ends: np.ndarray) -> bool:
        """Whether the text before all numbers is that of the stencil."""
        gaps = starts - np.concatenate(([len(_MARGIN)], ends[:-1]))
        if not (gaps.reshape(-1, self.numbers) == self.gaps).all():
            return False
        starts = starts.reshape(-1, self.numbers)
        return all(
            (_windows(text, len(each))[starts[:, columns] - len(each)] == each).all()
            for each, columns in self.around.items()
        )

    def _split(self, chunk: bytes) -> tuple[bytes, list[bytes] | None]:
        """The text without the strings of masks, behind the end of an entry and a margin; and these strings."""
        margin = _MARGIN + self.tail
        if self.string is None:
            return margin + chunk, None
        parts = _escaped(chunk).split(b'"')
        parts[0] = margin + parts[0]
        strings = parts[self.string :: self.quotes]
        del parts[self.string :: self.quotes]
        return b'"'.join(parts), strings


def _escaped(chunk: bytes) -> bytes:
    """The text with one character for each escaped backslash; ValueError for other escapes."""
    if _BACKSLASH in chunk:
        raise ValueError("a control character")
    if b"\\" not in chunk:
        return chunk
    chunk = chunk.replace(rb"\\", _BACKSLASH)
    if b"\\" in chunk:
        raise ValueError("another escape")
    return chunk


def _text(strings: list[bytes]) -> Text:
    codes = np.frombuffer(bytearray().join(strings), np.uint8)
    codes[codes == ord(_BACKSLASH)] = ord("\\")
    if len(codes) and not (codes.min() >= ord(" ") and codes.max() < 128):
        raise ValueError("not plain ASCII")
    return Text(codes, offsets_of(list(map(len, strings))))


def _tokens(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """First character of each number, and the one after its last."""
    codes = np.frombuffer(text, np.uint8)
    # from '-' to '9'; the slash among them is in no number, and is found there
    numeric = codes - np.uint8(ord("-")) <= ord("9") - ord("-")
    # the e of 1e-05
    powers = np.flatnonzero(((codes[1:-1] | 32) == ord("e")) & numeric[:-2]) + 1
    numeric[powers] = True
    numeric[powers[codes[powers + 1] == ord("+")] + 1] = True
    edges = np.flatnonzero(numeric[1:] != numeric[:-1]) + 1
    return edges[::2].copy(), edges[1::2].copy()


def _windows(text: bytes, length: int) -> np.ndarray:
    """The `length` characters at each position of a text, without a copy."""
    return np.ndarray((len(text) - length + 1,), f"S{length}", text, strides=(1,))


def _numbers(text: bytes, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N,) float64 numbers; and (N,) bool, those not whole or not exact."""
    numbers, broken, odd = short_decimals(text, starts, ends)
    rows = np.flatnonzero(odd)
    if len(rows) > _MOST_ODD * len(numbers):
        raise ValueError("mostly long numbers")
    if len(rows):
        spans = zip(starts[rows].tolist(), ends[rows].tolist(), strict=True)
        read = json.loads(b"[" + b",".join([text[start:end] for start, end in spans]) + b"]")
        numbers[rows] = list(map(float, read))
        broken[rows] = [type(n) is not int or abs(n) >= _MOST_EXACT for n in read]
    return numbers, broken
