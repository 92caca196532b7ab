"""A cache of image and feature stores that projects share (``runtime: {cache: FOLDER}``).

The fingerprint of a job names its folder in the cache, so a project reuses outputs that another has
computed from the same data, options and code. Entries are written atomically, and checked when
read.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together, whole_directory, whole_file
from permafrost.core.read_files import CACHE, RECORD


class Kept(Protocol):
    """What a job reads and did not declare; `path` is its record."""

    path: Path

    def fits(self, record: Path) -> bool:
        """Whether what another job read, by its record, is the same here."""
        ...


def taken_or_made(
    outputs: Sequence[Path],
    fingerprint: str,
    check: Callable[[Path], object],
    make: Callable,
    kept: Kept | None = None,
    *,
    shared: bool = True,
) -> None:
    """Take the outputs of a job from the cache, or compute them and add them to it.

    Parameters
    ----------
    outputs : stores (folders) and files, in the order of `outputs.together`.
    check : raises `PermafrostError` if an output is damaged or has another fingerprint.
    make : computes all outputs.
    kept : an entry counts only if what its job read is the same here; None: not known.
    shared : whether what is computed is added.
    """
    folder = os.environ.get(CACHE)
    if not folder:
        make()
        return
    entry = Path(folder) / fingerprint
    if entry.is_dir() and kept is not None and not kept.fits(entry / RECORD):
        print(f"the cache entry was made from other files, and is not used: {entry}")
        make()
    elif not _take(entry, outputs, check):
        make()
        if shared:
            _leave(entry, outputs, kept)


def _take(entry: Path, outputs: Sequence[Path], check: Callable[[Path], object]) -> bool:
    if not entry.is_dir():
        return False
    try:
        with together() as group:
            for path in outputs:
                whole = whole_directory if (entry / path.name).is_dir() else whole_file
                with whole(path, group=group) as partial:
                    _copy(entry / path.name, partial)
                    check(partial)
    except (PermafrostError, OSError) as error:
        print(f"the cache entry cannot be used and is replaced: {error}")
        _remove(entry)
        return False
    print(f"taken from the cache: {entry}")
    return True


def _leave(entry: Path, outputs: Sequence[Path], kept: Kept | None) -> None:
    """Copy outputs into the cache; if it is read-only for this user, only print a message."""
    partial = entry.with_name(f".{entry.name}-{uuid.uuid4().hex[:12]}")
    try:
        partial.mkdir(parents=True)
        for path in outputs:
            _copy(path, partial / path.name)
        if kept is not None and kept.path.is_file():
            shutil.copyfile(kept.path, partial / RECORD)
        os.rename(partial, entry)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not entry.is_dir():
            print(f"the cache was not written: {error}")


def _copy(source: Path, target: Path) -> None:
    """Link or copy all files of `source`; folders are created, so that this user owns them."""
    # imported here, since planning imports this module and does not need zarr
    from permafrost.core.stores import link_or_copy

    if not source.is_dir():
        link_or_copy(source, target)
        return
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if not path.name.startswith(".snakemake"):
            _copy(path, target / path.name)


def _remove(entry: Path) -> None:
    """Remove a damaged entry, if permitted; renamed first, so that nobody reads half of it."""
    away = entry.with_name(f".{entry.name}-{uuid.uuid4().hex[:12]}")
    try:
        os.rename(entry, away)
    except OSError:
        return
    shutil.rmtree(away, ignore_errors=True)
