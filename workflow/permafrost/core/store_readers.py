"""Open stores: those that hold arrays, and those of derived datasets, which read others'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from permafrost.core.stores import Store

#: attribute of a store -> module and class that read it; imported, and part of a job's code, only if its
#: specification has this key
READERS = {"rows": "permafrost.core.rows_store:RowsStore"}


def open_store(path: Path, *, expect: str | None = None, split: str | None = None) -> Store:
    """The store at `path`; errors as those of `Store`."""
    store = Store(path, expect=expect, split=split)
    reader = reader_of(store, READERS)
    return store if reader is None else reader(path, expect=expect, split=split)


def reader_of(store: Store, readers: Mapping[str, str]) -> Callable[..., Store] | None:
    """The class that reads a store, by its attributes; `readers` as `READERS`."""
    for key, place in readers.items():
        if key in store.attributes:
            module, _, name = place.partition(":")
            return getattr(import_module(module), name)
    return None


def is_here(path: Path) -> bool:
    """Whether there is a store at `path`, and all stores that it reads."""
    if not Path(path).exists():
        return False
    store = open_store(path)
    return all(Path(one).exists() for one in getattr(store, "parents", ()))
