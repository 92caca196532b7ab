"""Open stores: those that hold arrays, and those of derived datasets, which read others'."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from permafrost.core.stores import Store

#: attribute of a store -> module and class that read it; imported, and part of a job's code, only if its
#: specification has this key
READERS = {"rows": "permafrost.core.rows_store:RowsStore"}


def open_store(path: Path, *, expect: str | None = None, split: str | None = None) -> Store:
    """The store at `path`; errors as those of `Store`."""
    store = Store(path, expect=expect, split=split)
    for key, reader in READERS.items():
        if key in store.attributes:
            module, _, name = reader.partition(":")
            return getattr(import_module(module), name)(path, expect=expect, split=split)
    return store


def is_here(path: Path) -> bool:
    """Whether there is a store at `path`, and all stores that it reads."""
    if not Path(path).exists():
        return False
    store = open_store(path)
    return all(Path(one).exists() for one in getattr(store, "parents", ()))
