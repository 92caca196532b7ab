"""Columns from lists of JSON objects; every value is checked.

An invalid entry raises an error that names it; with ``invalid="drop"`` it is omitted and counted by
reason.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from operator import itemgetter

import numpy as np

from permafrost.core.errors import PermafrostError

# larger than any image, and small enough that products do not overflow
NUMBER_LIMIT = 1e15
# largest array of fixed-width strings, in bytes
_MOST_BYTES = 1 << 30
# rows of numbers checked at once
_BLOCK = 1 << 12

_ABSENT = object()


class Columns:
    """Reads one list of JSON objects.

    Parameters
    ----------
    entries : the parsed list.
    source : name of the file, for messages.
    section : name of the list in the file, "" if the file is the list.
    drop : omit and count invalid entries, instead of refusing the first.
    """

    def __init__(self, entries, source: str, section: str, *, drop: bool = False) -> None:
        if not isinstance(entries, list | tuple):
            raise PermafrostError(
                f"must be a list of objects, not {_kind(entries)}",
                where=f"{source}: {section}" if section else source,
                remedy="write COCO JSON: images, categories and annotations as lists of objects"
                if section
                else "write one list with an object per detection (COCO's results format)",
            )
        self.source, self.section, self.drop = source, section, drop
        self.entries = entries
        self.bad = np.zeros(len(entries), bool)
        self.dropped: Counter[str] = Counter()
        foreign = (
            []
            if set(map(type, entries)) <= {dict}
            else [i for i, entry in enumerate(entries) if not isinstance(entry, dict)]
        )
        self.refuse(foreign, "not an object")
        if foreign:
            self.entries = [e if isinstance(e, dict) else {} for e in entries]

    def __len__(self) -> int:
        return len(self.entries)

    def where(self, row: int) -> str:
        """File, list, position and id of an entry, for messages."""
        entry = self.entries[row]
        number = f" (id {entry['id']})" if isinstance(entry, dict) and "id" in entry else ""
        return f"{self.source}: {self.section}[{row}]{number}"

    def refuse(
        self, rows, problem: str, *, key: str | None = None, remedy: str | None = None
    ) -> None:
        """Report invalid rows: raise an error that names the first or, with `drop`, omit and count them."""
        rows = np.asarray(rows, np.int64)
        rows = rows[~self.bad[rows]]
        if not rows.size:
            return
        if not self.drop:
            row = int(rows[0])
            shown = f" ({key}: {_short(self.entries[row].get(key))})" if key else ""
            more = (
                f"; the same holds for {len(rows) - 1} more of {len(self)}" if len(rows) > 1 else ""
            )
            raise PermafrostError(f"{problem}{shown}{more}", where=self.where(row), remedy=remedy)
        self.pass_over(rows, problem)

    def pass_over(self, rows, problem: str) -> None:
        """Omit rows, also without `drop`, and count those not yet omitted."""
        rows = np.asarray(rows, np.int64)
        rows = rows[~self.bad[rows]]
        if rows.size:
            self.bad[rows] = True
            self.dropped[f"{self.section or 'detections'}: {problem}"] += len(rows)

    def raw(self, key: str, *, required: bool = True) -> tuple[list, np.ndarray]:
        """Values, and (N,) bool whether each is present; null counts as missing."""
        try:
            values = list(map(itemgetter(key), self.entries))
        except KeyError:
            values = [entry.get(key, _ABSENT) for entry in self.entries]
        kinds = set(map(type, values))
        if object not in kinds and type(None) not in kinds:
            return values, np.ones(len(values), bool)
        present = np.array([v is not _ABSENT and v is not None for v in values], bool)
        if required:
            self.refuse(np.flatnonzero(~present), f"has no {key}")
        return values, present

    def first(self) -> dict:
        """The first entry."""
        return self.entries[0]

    def all_have(self, key: str) -> bool:
        """Whether every entry has this key, and it is not null."""
        return all(entry.get(key) is not None for entry in self.entries)

    def numbers(self, key: str, *, required: bool = True, missing: float = np.nan) -> np.ndarray:
        """(N,) finite floats."""
        values, present = self.raw(key, required=required)
        if present.all() and set(map(type, values)) <= {int, float}:
            try:
                out = np.frombuffer(array("d", values))
            except OverflowError:
                out = None
            if out is not None:
                self._within(out, present, key)
                return out
        out = np.full(len(values), missing)
        wrong = []
        for row in np.flatnonzero(present):
            number = _number(values[row])
            if number is None:
                wrong.append(row)
            else:
                out[row] = number
        self.refuse(wrong, f"{key} is not a number", key=key)
        self._within(out, present, key)
        return out

    def _within(self, numbers: np.ndarray, present: np.ndarray, key: str) -> None:
        beyond = present & ~(np.abs(numbers) <= NUMBER_LIMIT)
        if beyond.any():
            self.refuse(
                np.flatnonzero(beyond & ~np.isfinite(numbers)), f"{key} is not finite", key=key
            )
            self.refuse(np.flatnonzero(beyond), f"{key} is gigantic", key=key)

    def identities(self, key: str, *, missing=None) -> np.ndarray:
        """(N,) ids: int64 if all are whole numbers, strings if all are strings."""
        values, present = self.raw(key, required=missing is None)
        kinds = set(map(type, values))
        if kinds == {int}:
            try:
                return np.frombuffer(array("q", values), np.int64)
            except OverflowError:
                pass
        if kinds == {str}:
            return self._words(values, key)
        words = sum(isinstance(v, str) for v in values)
        out = np.full(len(values), -1 if missing is None else missing, np.int64)
        if words > len(values) / 2:
            wrong = [i for i in np.flatnonzero(present) if not isinstance(values[i], str)]
            self.refuse(wrong, f"{key} is not a string, as the others are", key=key)
            return self._words([v if isinstance(v, str) else "" for v in values], key)
        wrong = []
        for row in np.flatnonzero(present):
            number = _whole(values[row])
            if number is None or not -(1 << 62) < number < 1 << 62:
                wrong.append(row)
            else:
                out[row] = number
        self.refuse(wrong, f"{key} is not a whole number", key=key)
        return out

    def _words(self, values: list[str], key: str) -> np.ndarray:
        """(N,) strings; checks their size, since NumPy pads all to the longest, and refuses a final NUL."""
        wrong = [row for row, value in enumerate(values) if value.endswith("\0")]
        self.refuse(wrong, f"{key} ends in the character NUL", key=key)
        longest = max(map(len, values), default=0)
        if 4 * longest * len(values) > _MOST_BYTES:
            row = next(row for row, value in enumerate(values) if len(value) == longest)
            raise PermafrostError(
                f"{key} has {longest} characters: {len(values)} ids as long would take"
                f" {4 * longest * len(values) / 1e9:.0f} GB of memory",
                where=self.where(row),
                remedy="give shorter ids",
            )
        return np.array(values)

    def are_identities(self, key: str) -> bool:
        """Whether `identities` and `unique` accept all values."""
        values, present = self.raw(key, required=False)
        whole = set(map(type, values)) == {int} and max(map(abs, values)) < 1 << 62
        words = set(map(type, values)) == {str} and not any(v.endswith("\0") for v in values)
        return bool(present.all()) and (whole or words) and len(set(values)) == len(values)

    def unique(self, ids: np.ndarray, key: str) -> None:
        """Refuse every entry that repeats an earlier id."""
        order = np.argsort(ids, kind="stable")
        again = order[1:][ids[order[1:]] == ids[order[:-1]]]
        self.refuse(
            np.sort(again), f"{key} occurs twice", key=key, remedy="give every entry its own id"
        )

    def flags(self, key: str) -> np.ndarray:
        """(N,) int8: 0 or 1, -1 if missing."""
        values, present = self.raw(key, required=False)
        if present.all() and set(map(type, values)) <= {int} and set(values) <= {0, 1}:
            return np.array(values, np.int8)
        out, wrong = np.full(len(values), -1, np.int8), []
        for row in np.flatnonzero(present):
            number = _whole(
                int(values[row]) if isinstance(values[row], bool | np.bool_) else values[row]
            )
            if number in (0, 1):
                out[row] = number
            else:
                wrong.append(row)
        self.refuse(wrong, f"{key} is neither 0 nor 1", key=key)
        return out

    def vectors(
        self, key: str, length: int, *, required: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """(N, length) finite floats, NaN if missing, and (N,) bool whether each is present."""
        values, present = self.raw(key, required=required)
        return self.vectors_of(values, present, key, length)

    def vectors_of(
        self, values: list, present: np.ndarray, key: str, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """`vectors` of values that are already at hand."""
        rows = np.flatnonzero(present)
        given = values if len(rows) == len(values) else [values[i] for i in rows]
        out = np.full((len(values), length), np.nan)
        if set(map(type, given)) <= {list, tuple} and set(map(len, given)) <= {length}:
            try:
                numbers = _flat_numbers(given)
            except (OverflowError, TypeError):
                pass
            else:
                out[rows if len(rows) < len(out) else slice(None)] = numbers.reshape(-1, length)
                self._vectors_within(out, present, key)
                return out, present
        wrong = []
        for row in rows:
            numbers = _numbers(values[row], length)
            if numbers is None:
                wrong.append(row)
            else:
                out[row] = numbers
        self.refuse(wrong, f"{key} is not a list of {length} numbers", key=key)
        present = present.copy()
        present[np.asarray(wrong, np.int64)] = False
        self._vectors_within(out, present, key)
        return out, present

    def _vectors_within(self, vectors: np.ndarray, present: np.ndarray, key: str) -> None:
        fine = np.empty(len(vectors), bool)
        # in blocks, since the absolute values of all keypoints would double the memory
        for start in range(0, len(vectors), _BLOCK):
            block = slice(start, start + _BLOCK)
            fine[block] = (np.abs(vectors[block]) <= NUMBER_LIMIT).all(axis=1)
        if (present & ~fine).any():
            infinite = present & ~np.isfinite(vectors).all(axis=1)
            self.refuse(np.flatnonzero(infinite), f"{key} is not finite", key=key)
            self.refuse(np.flatnonzero(present & ~fine), f"{key} is gigantic", key=key)


def _flat_numbers(lists) -> np.ndarray:
    """All numbers of all lists as float64; TypeError for any other value."""
    # the standard library's array converts Python numbers faster than NumPy
    if not set(map(type, chain.from_iterable(lists))) <= {int, float}:
        raise TypeError("not a number")
    return np.frombuffer(array("d", chain.from_iterable(lists)))


def _number(value) -> float | None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return None
    try:
        return float(value)
    except (OverflowError, TypeError):
        return np.inf


def _whole(value) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    return None


def _numbers(value, length: int) -> list[float] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or len(value) != length:
        return None
    numbers = [_number(item) for item in value]
    return None if any(number is None for number in numbers) else numbers


def _kind(value) -> str:
    return "an object" if isinstance(value, dict) else type(value).__name__


def _short(value) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
