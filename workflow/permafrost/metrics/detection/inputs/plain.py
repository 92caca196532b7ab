"""Read usual files of detections chunk by chunk.

Parsed as a whole, such a file becomes millions of small objects, ten times its size. Here one chunk
at a time is read, by a `Stencil` while it fits, and appended to columns. `Columns` reads files with anything
unusual, valid or not, since its messages name every entry.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterator
from operator import itemgetter
from typing import BinaryIO

import numpy as np

from permafrost.metrics.detection.inputs.columns import Columns
from permafrost.metrics.detection.inputs.forms import Compressed, compacted
from permafrost.metrics.detection.inputs.parsing import parse, parse_unique, read_file
from permafrost.metrics.detection.inputs.stencil import Chunk, Stencil
from permafrost.metrics.detection.masks.text import Text
from permafrost.metrics.detection.ragged import offsets_of

# bytes parsed at a time: so few that Python reuses the memory of their objects
_PIECE = 1 << 17
# bytes of the longest entry of a usual file
_LONGEST = 1 << 24
_BEFORE = re.compile(rb"\}\s*,\s*\Z")
# bytes of the longest separator of two entries, from brace to brace
_SEPARATOR = 64
# most braces in a read that may open no entry
_MOST_BRACES = 1000
_IDS = ("image_id", "category_id", "id")
_NEEDED = {"image_id", "category_id", "score"}
_LISTS = ("bbox", "keypoints", "obb", "poly")
_OPTIONAL = {"id", "segmentation", *_LISTS}
# numbers of a box: upright, oriented, four corners
_BOXES = (4, 5, 8)
_UNUSUAL = (ValueError, LookupError, TypeError, OverflowError, AttributeError)


class PlainColumns(Columns):
    """Columns of entries that all have the same keys and values of the usual types.

    Parameters
    ----------
    path : the file, read again if a message shows an entry.
    gathered : its columns.
    """

    def __init__(self, path: str | os.PathLike, gathered: Gathered, *, drop: bool) -> None:
        super().__init__((), str(path), "", drop=drop)
        self.path, self._first = path, gathered.first
        self.ids = {
            key: np.frombuffer(gathered.numbers[key], np.int64)
            for key in _IDS
            if key in self._first
        }
        self.scores = np.frombuffer(gathered.numbers["score"])
        self.lists = {
            key: np.frombuffer(values).reshape(-1, len(self._first[key]))
            for key, values in gathered.lists.items()
            if key in self._first
        }
        self.masks = gathered.masks()
        self.bad = np.zeros(len(self), bool)
        self._parsed: list | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def entries(self):
        """All entries as dicts."""
        if self._parsed is None:
            self._parsed = parse(read_file(self.path), self.path)
        return self._parsed

    @entries.setter
    def entries(self, value) -> None:
        pass

    def first(self) -> dict:
        return self._first

    def all_have(self, key: str) -> bool:
        return key in self._first

    def raw(self, key: str, *, required: bool = True):
        if key == "segmentation" and self.masks is not None:
            return self.masks, np.ones(len(self), bool)
        if key not in self._first and not required:
            return [None] * len(self), np.zeros(len(self), bool)
        return super().raw(key, required=required)

    def numbers(self, key: str, *, required: bool = True, missing: float = np.nan) -> np.ndarray:
        if key != "score":
            return super().numbers(key, required=required, missing=missing)
        self._within(self.scores, np.ones(len(self), bool), key)
        return self.scores

    def identities(self, key: str, *, missing=None) -> np.ndarray:
        return self.ids[key] if key in self.ids else super().identities(key, missing=missing)

    def are_identities(self, key: str) -> bool:
        return len(np.unique(self.ids[key])) == len(self)

    def vectors(self, key: str, length: int, *, required: bool = True):
        vectors = self.lists.get(key)
        if vectors is None or vectors.shape[1] != length:
            return super().vectors(key, length, required=required)
        present = np.ones(len(self), bool)
        self._vectors_within(vectors, present, key)
        return vectors, present


def plain_columns(path: str | os.PathLike, *, drop: bool) -> PlainColumns | None:
    """The columns of a file of detections, None if it has anything unusual."""
    gathered = Gathered()
    if not os.path.isfile(path):  # a pipe can be read only once
        return None
    try:
        with open(path, "rb") as file:
            for piece in _pieces(file):
                gathered.add(piece)
    except (*_UNUSUAL, RecursionError, OSError):
        return None
    return PlainColumns(path, gathered, drop=drop) if gathered.first else None


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Chunks of the text between the brackets of a list of objects, cut between entries."""
    head = file.read(_PIECE).lstrip()
    if head[:1] != b"[" or head[1:].lstrip()[:1] not in (b"{", b""):
        raise ValueError("not a list of objects")
    # grows in place, so that a long entry is copied and searched only once
    rest = bytearray(head[1:].lstrip())
    while more := file.read(_PIECE):
        # a separator may span two reads
        begin = max(0, len(rest) - _SEPARATOR)
        rest += more
        end, start = _last_separator(rest, begin)
        if end:
            yield bytes(rest[:end])
            del rest[:start]
        elif len(rest) > _LONGEST:
            raise ValueError("no end of an entry")
    rest = rest.rstrip()
    if rest[-1:] != b"]":
        raise ValueError("not a list")
    yield bytes(rest[:-1].rstrip())


def _last_separator(text: bytearray, begin: int) -> tuple[int, int]:
    """Where an entry ends and the next one starts, as late as possible; zeros if that is nowhere after `begin`."""
    start = len(text)
    for _ in range(_MOST_BRACES):
        start = text.rfind(b"{", begin, start)
        if start < 0:
            break
        found = _BEFORE.search(text, max(0, start - _SEPARATOR), start)
        if found:
            return found.start() + 1, start
    return 0, 0


class Gathered:
    """Columns that grow chunk by chunk; anything unusual raises one of the errors in `_UNUSUAL`."""

    def __init__(self) -> None:
        self.first: dict = {}
        self.numbers: dict[str, array] = {**{key: array("q") for key in _IDS}, "score": array("d")}
        self.lists = {key: array("d") for key in _LISTS}
        self.counts, self.lengths, self.sizes = bytearray(), array("q"), array("q")
        self.stencil: Stencil | None = None

    def add(self, piece: bytes) -> None:
        """Append the entries of a chunk of text."""
        try:
            if not self.first:
                self.stencil = Stencil(piece)
            if self.stencil is not None:
                self._fill(self.stencil.read(piece), self.stencil.entry)
                return
        except _UNUSUAL:
            self.stencil = None
        # in a list of numbers, true and false would become 1 and 0
        if b"true" in piece or b"false" in piece:
            raise TypeError("not a number")
        # each chunk becomes a list; joined, they are the list of the file
        self.take(parse_unique(b"[" + piece + b"]"))

    def _fill(self, chunk: Chunk, entry: dict) -> None:
        """Append the entries of a chunk, which are like `entry`."""
        _check_keys(entry)
        places, end = {}, 0
        for key, value in entry.items():
            begin, end = end, end + _size(key, value)
            places[key] = slice(begin, end)
        masked = "segmentation" in entry
        if end != chunk.numbers.shape[1] or masked == (chunk.strings is None):
            raise ValueError("other numbers")
        if not all(chunk.whole[places[key]].all() for key in {*_IDS, "segmentation"} & {*entry}):
            raise TypeError("not a whole number")
        self.first = self.first or entry
        for key, place in places.items():
            values = chunk.numbers[:, place]
            if key == "segmentation":
                self._append(Compressed(chunk.strings, values.astype(np.int64)))
            else:
                column = self.lists[key] if key in self.lists else self.numbers[key]
                column.frombytes((values.astype(np.int64) if key in _IDS else values).tobytes())

    def take(self, entries: list) -> None:
        """Append entries to the columns."""
        self.first = self.first or entries[0]
        keys = tuple(self.first)
        _check_keys(self.first)
        if set(map(type, entries)) != {dict} or set(map(len, entries)) != {len(keys)}:
            raise ValueError("other keys")
        columns = zip(*map(itemgetter(*keys), entries), strict=True)
        for key, values in zip(keys, columns, strict=True):
            if key == "segmentation":
                self._masks(values)
            elif key in self.lists:
                self._lists(key, values)
            elif set(map(type, values)) <= ({int, float} if key == "score" else {int}):
                self.numbers[key].extend(values)
            else:
                raise TypeError("not a number")

    def _lists(self, key: str, values) -> None:
        length = _size(key, self.first[key])
        if set(map(type, values)) != {list} or set(map(len, values)) != {length} or not length:
            raise TypeError("not a list of so many")
        for numbers in values:
            self.lists[key].fromlist(numbers)

    def _masks(self, values) -> None:
        masks = compacted(values)
        if not isinstance(masks, Compressed):
            raise TypeError("not a compressed mask")
        self._append(masks)

    def _append(self, masks: Compressed) -> None:
        self.counts += masks.counts.codes.data
        self.lengths.frombytes(np.diff(masks.counts.offsets).tobytes())
        self.sizes.frombytes(masks.sizes.tobytes())

    def masks(self) -> Compressed | None:
        """All segmentations; None if there are none."""
        if "segmentation" not in self.first:
            return None
        offsets = offsets_of(np.frombuffer(self.lengths, np.int64))
        text = Text(np.frombuffer(self.counts, np.uint8), offsets)
        return Compressed(text, np.frombuffer(self.sizes, np.int64).reshape(-1, 2))


def _check_keys(entry: dict) -> None:
    if not _NEEDED <= entry.keys() <= _NEEDED | _OPTIONAL:
        raise ValueError("other keys")


def _size(key: str, value) -> int:
    """How many numbers a value of a usual entry has."""
    if key == "segmentation":
        if value.keys() != {"size", "counts"} or type(value["counts"]) is not str:
            raise TypeError("not a compressed mask")
        value = value["size"]
    sizes = {"bbox": _BOXES, "segmentation": (2,)}.get(key)
    if key in (*_LISTS, "segmentation"):
        if type(value) is not list or not value or (sizes and len(value) not in sizes):
            raise TypeError("not a list of so many")
    else:
        value = [value]
    if not {*map(type, value)} <= {int, float}:
        raise TypeError("not a number")
    return len(value)
