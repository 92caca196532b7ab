"""Files of detections that are as they mostly are, read piece by piece.

Parsed as a whole, such a file becomes millions of small objects, ten times its size. Here a piece of it
at a time is parsed and put into columns. A file with anything unusual in it, right or wrong, is left
to `Columns`, which names every entry.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from .columns import Columns, flat_numbers
from .compressed import Compressed, compacted

# bytes parsed at a time: few enough that the memory of their objects is used again at once
_PIECE = 1 << 17
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NEEDED = {"image_id", "category_id", "score"}
_GEOMETRY = {"bbox", "segmentation"}


class PlainColumns(Columns):
    """Entries that all have the same keys, and values of the usual kinds, already in columns.

    Parameters
    ----------
    content : the file, parsed once more where an entry must be shown.
    first : the first entry.
    ids, scores : key to (N,) numbers; `boxes`, `masks` : if the entries have them.
    """

    def __init__(self, content: bytes, source: str, drop: bool, first: dict, parts: dict) -> None:
        super().__init__((), source, "", drop=drop)
        self.content, self._first = content, first
        self.ids = {key: np.frombuffer(parts[key], np.int64) for key in ("image_id", "category_id")}
        self.scores = np.frombuffer(parts["score"])
        self.boxes = np.concatenate(parts["bbox"]).reshape(-1, 4) if "bbox" in first else None
        self.masks = Compressed.joined(parts["segmentation"]) if "segmentation" in first else None
        self.bad = np.zeros(len(self), bool)
        self._parsed: list | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def entries(self):
        """All entries, as objects."""
        if self._parsed is None:
            self._parsed = json.loads(self.content)
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

    def vectors(self, key: str, length: int, *, required: bool = True):
        if key != "bbox" or self.boxes is None:
            return super().vectors(key, length, required=required)
        present = np.ones(len(self), bool)
        self._vectors_within(self.boxes, present, key)
        return self.boxes, present


def plain_columns(content: bytes, source: str, *, drop: bool) -> PlainColumns | None:
    """The columns of a file of detections, None where it is not as they mostly are."""
    parts: dict = {"image_id": array("q"), "category_id": array("q"), "score": array("d")}
    parts.update({key: [] for key in _GEOMETRY})
    first = None
    try:
        for piece in _pieces(content):
            # pieces that are lists of their own are together the list that the file is
            entries = json.loads(b"[" + piece + b"]")
            first = first or entries[0]
            if not _taken(entries, first, parts):
                return None
    except (ValueError, RecursionError, KeyError, TypeError, OverflowError, AttributeError):
        return None
    return PlainColumns(content, source, drop, first, parts) if first else None


def _pieces(content: bytes) -> Iterator[bytes]:
    """The file between its brackets, cut between entries."""
    begin, end = re.match(rb"\s*", content).end(), len(content.rstrip())
    if content[begin : begin + 1] != b"[" or content[end - 1 : end] != b"]" or end - begin < 3:
        raise ValueError("not a list")
    begin, end = begin + 1, end - 1
    while begin < end:
        cut = _BETWEEN.search(content, begin + _PIECE, end)
        stop = cut.start() + 1 if cut else end
        yield content[begin:stop]
        begin = cut.end() - 1 if cut else end


def _taken(entries: list, first: dict, parts: dict) -> bool:
    """Put entries into the columns, if they are as usual."""
    keys = tuple(first)
    unusual = not first.keys() >= _NEEDED or not first.keys() <= _NEEDED | _GEOMETRY
    if unusual or set(map(type, entries)) != {dict} or set(map(len, entries)) != {len(keys)}:
        return False
    for key, values in zip(keys, zip(*map(itemgetter(*keys), entries), strict=True), strict=True):
        if key == "segmentation":
            masks = compacted(values)
            if not isinstance(masks, Compressed):
                return False
            parts[key].append(masks)
        elif key == "bbox":
            if set(map(type, values)) != {list} or set(map(len, values)) != {4}:
                return False
            parts[key].append(flat_numbers(values))
        else:
            kinds = set(map(type, values))
            if not kinds <= ({int, float} if key == "score" else {int}):
                return False
            parts[key].extend(values)
    return True
