"""Stores of derived datasets: they hold labels, samples and numbers of rows, and read all else from others' stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.store_readers import reader_of
from permafrost.core.stores import Store, StoreWriter, write_store

#: attribute of a store that reads others: its parents, and the arrays that it reads from them
ROWS = "rows"
#: arrays of such a store: number of the parent of each sample, and its row there
PARENT, ROW = "parent", "row"
#: array of a store with folds, (N, F) bool: whether a sample is in this split of each fold
FOLDS = "folds"
#: attribute of a store whose images are degraded when they are read
HARDER = "harder"
#: attribute of a store -> module and class that change the rows that it reads; imported, and part of a job's code,
#: only if its specification has this key
CHANGES = {"harder": "permafrost.data.resplit.harder:Harder"}
_OWN = frozenset({PARENT, ROW, FOLDS, "labels"})
_ROWS_PER_CHUNK = 65_536


@dataclass(frozen=True)
class Parent:
    """A store that another one reads: the split of a dataset, and the fingerprint that it must have."""

    dataset: str
    split: str
    fingerprint: str


@dataclass(frozen=True)
class Selection:
    """The samples of a split of a derived dataset.

    Attributes
    ----------
    parent, row : (N,) number of the parent, and row in its store.
    folds : (N, F) bool, whether a sample is in this split of each fold; None without folds.
    """

    parent: np.ndarray
    row: np.ndarray
    folds: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def of(cls, store: Store) -> Selection:
        """That of a written store."""
        folds = store.read(FOLDS).astype(bool) if FOLDS in store else None
        return cls(store.read(PARENT).astype(np.int64), store.read(ROW), folds)


def write_rows(
    writer: StoreWriter,
    selection: Selection,
    parents: Sequence[Parent],
    stores: Sequence[Store],
    labels: np.ndarray | None,
) -> None:
    """Write what a store of a derived dataset holds, except samples and its other attributes.

    Parameters
    ----------
    stores : those of `parents`, opened.
    labels : (N,) or (N, L); None if pixels or objects are labelled.
    """
    own: dict[str, np.ndarray | None] = {
        PARENT: selection.parent.astype(np.int16),
        ROW: selection.row.astype(np.int64),
        FOLDS: None if selection.folds is None else selection.folds.astype(np.uint8),
        "labels": labels,
    }
    for name, values in own.items():
        if values is not None:
            shape, kind = values.shape, values.dtype
            writer.array(name, shape, kind, rows_per_chunk=_ROWS_PER_CHUNK)[:] = values
    writer.attributes[ROWS] = {
        "of": [[one.dataset, one.split, one.fingerprint] for one in parents],
        "arrays": _read_through(stores, len(selection)),
    }


def write_fold(path: Path, store: Store, fold: int) -> None:
    """Write a store with the samples of one fold of a `RowsStore`, which reads the parents beside it."""
    rows = np.flatnonzero(store.read(FOLDS)[:, fold])
    about = store.attributes[ROWS]
    with write_store(path, fingerprint=store.attributes["fingerprint"]) as writer:
        for name in sorted(_OWN - {FOLDS}):
            if name in store:
                values = store.read(name)[rows]
                writer.array(name, values.shape, values.dtype, rows_per_chunk=_ROWS_PER_CHUNK)[
                    :
                ] = values
        writer.samples(store.samples().take(pa.array(rows)))
        arrays = {
            name: [[len(rows), *sides], kind]
            for name, ((_, *sides), kind) in about["arrays"].items()
        }
        writer.attributes.update(store.attributes | {ROWS: {**about, "arrays": arrays}})


def _read_through(stores: Sequence[Store], count: int) -> dict[str, list]:
    """Array -> its shape and type, of those that all stores have and that are read from them."""
    first, *others = (store.attributes["arrays"] for store in stores)
    found = {}
    for name in sorted(set(first).intersection(*others) - _OWN):
        every = [arrays[name] for arrays in (first, *others)]
        sides = [shape[1:] for shape, _ in every]
        if len({len(side) for side in sides}) == 1:
            found[name] = [
                [count, *(max(each) for each in zip(*sides, strict=True))],
                str(np.result_type(*(kind for _, kind in every))),
            ]
    return found


class RowsStore(Store):
    """A store that reads rows of others, which are opened when an array of theirs is read.

    Its attribute ``rows`` names them with their fingerprints. They are in the same results folder: image stores in
    that of their dataset, feature stores of the same backbone in that of their dataset.
    """

    def __init__(self, path: Path, *, expect: str | None = None, split: str | None = None) -> None:
        super().__init__(path, expect=expect, split=split)
        about = self.attributes[ROWS]
        self._of = [Parent(*one) for one in about["of"]]
        self.parents = [self._place(one) for one in self._of]
        self._opened: dict[int, Store] = {}
        self._selection = Selection.of(self)
        numbers = self._selection.parent
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(self._of)):
            raise self._refuse("it reads a store that it does not name")
        self.attributes = {
            **self.attributes,
            "arrays": {**self.attributes["arrays"], **about["arrays"]},
        }
        change = reader_of(self, CHANGES)
        self._change: Any = change and change(self)

    def _place(self, parent: Parent) -> Path:
        """The path of a parent; its names come from a file, so they must be plain names."""
        for name in (parent.dataset, parent.split):
            if Path(name).name != name or name in ("", ".", ".."):
                raise PermafrostError(
                    f"it reads {name!r}, which is not the name of a dataset or split",
                    where=self.path,
                    remedy="delete the store",
                )
        backbone = [self.path.parent.name] if "backbone" in self.attributes else []
        folder = self.path.parents[1 + len(backbone)]
        return folder.joinpath(parent.dataset, *backbone, f"{parent.split}.zarr")

    def _parent(self, number: int) -> Store:
        if number not in self._opened:
            one = self._of[number]
            self._opened[number] = Store(
                self.parents[number], expect=one.fingerprint, split=one.split
            )
        return self._opened[number]

    def chunk_rows(self, name: str) -> int:
        if not self._through(name):
            return super().chunk_rows(name)
        used = np.unique(self._selection.parent)
        return max((self._parent(int(one)).chunk_rows(name) for one in used), default=1)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> np.ndarray:
        if not self._through(name):
            return super().read(name, start, stop)
        stop = len(self) if stop is None else min(stop, len(self))
        (_, *sides), kind = self.attributes["arrays"][name]
        found = np.zeros((max(stop - start, 0), *sides), kind)
        parents, rows = self._selection.parent[start:stop], self._selection.row[start:stop]
        for number in np.unique(parents):
            places = np.flatnonzero(parents == number)
            store = self._parent(int(number))
            if rows[places].min() < 0 or rows[places].max() >= len(store):
                raise self._refuse(f"it reads rows that {store.path} does not have")
            for first, last, here in _runs(rows[places], store.chunk_rows(name)):
                values = store.read(name, first, last)[rows[places[here]] - first]
                # images of one dataset may be larger than those of another; the rest is padding
                inside = tuple(slice(size) for size in values.shape[1:])
                found[(places[here], *inside)] = values
        return found if self._change is None else self._change(name, start, found)

    def _through(self, name: str) -> bool:
        return name in self.attributes[ROWS]["arrays"]


def _runs(rows: np.ndarray, chunk: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """Ranges of rows to read together, and the places in `rows` of those in each.

    A range ends where a chunk without any of the rows follows, and has at most 16 chunks.
    """
    order = np.argsort(rows, kind="stable")
    chunks = rows[order] // chunk
    begins = [0]
    for place in np.flatnonzero(np.diff(chunks)) + 1:
        if chunks[place] - chunks[place - 1] > 1 or chunks[place] - chunks[begins[-1]] >= 16:
            begins.append(int(place))
    for first, last in zip(begins, [*begins[1:], len(rows)], strict=True):
        here = order[first:last]
        if len(here):
            yield int(rows[here[0]]), int(rows[here[-1]]) + 1, here
