"""Open feature stores: those that hold features, and those of derived backbones, which read others'."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.store_readers import open_store, reader_of
from permafrost.core.stores import Store

#: attribute of a store -> module and class that read it; imported, and part of a job's code, only if its
#: specification has this key
READERS = {"derived": "permafrost.features.derived.view:DerivedStore"}


def open_features(path: Path, *, expect: str | None = None, split: str | None = None) -> Store:
    """The feature store at `path`; errors as those of `Store`."""
    store = open_store(path, expect=expect, split=split)
    reader = reader_of(store, READERS)
    return store if reader is None else reader(path, expect=expect, split=split)
