"""A cache of image and feature stores that projects share (``runtime: {cache: FOLDER}``).

The fingerprint of a job names the folder of its outputs there, so a project takes what another has extracted with
the same data, options and code. Entries appear whole or not at all, and are checked when they are taken.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import together, whole_directory, whole_file

#: variable of jobs: the folder of the cache
CACHE = "PERMAFROST_CACHE"


def taken_or_made(
    outputs: Sequence[Path], fingerprint: str, check: Callable[[Path], object], make: Callable
) -> None:
    """Take the outputs of a job from the cache, or make them and add them to it.

    Parameters
    ----------
    outputs : stores (folders) and files, in the order in which they take their places.
    check : refuses a damaged output, or one with another fingerprint, by a `PermafrostError`.
    make : makes all outputs.
    """
    folder = os.environ.get(CACHE)
    if not folder:
        make()
        return
    entry = Path(folder) / fingerprint
    if not _take(entry, outputs, check):
        make()
        _leave(entry, outputs)


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


def _leave(entry: Path, outputs: Sequence[Path]) -> None:
    """Copy outputs into the cache; a folder that this user may only read stays as it is."""
    partial = entry.with_name(f".{entry.name}-{uuid.uuid4().hex[:12]}")
    try:
        partial.mkdir(parents=True)
        for path in outputs:
            _copy(path, partial / path.name)
        os.rename(partial, entry)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not entry.is_dir():
            print(f"the cache was not written: {error}")


def _copy(source: Path, target: Path) -> None:
    """Links to all files of `source`, or copies; folders are new, so their permissions are this user's."""
    # planning reads the name of the variable, and needs no zarr
    from permafrost.core.stores import link_or_copy

    if not source.is_dir():
        link_or_copy(source, target)
        return
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if not path.name.startswith(".snakemake"):
            _copy(path, target / path.name)


def _remove(entry: Path) -> None:
    """Remove a damaged entry, if this user may: it is renamed first, so nobody takes half of it."""
    away = entry.with_name(f".{entry.name}-{uuid.uuid4().hex[:12]}")
    try:
        os.rename(entry, away)
    except OSError:
        return
    shutil.rmtree(away, ignore_errors=True)
