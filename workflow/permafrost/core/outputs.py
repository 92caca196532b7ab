"""Outputs appear whole or not at all: written beside the target, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from .errors import PermafrostError

PARTIAL = ".partial-"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@contextlib.contextmanager
def whole_file(path, *, exclusive: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on an error it vanishes.

    Leftovers of an earlier, killed writer of the same target are removed first. With `exclusive`
    false they are not: for a file that several processes may be writing at once, the last one wins.

    Raises
    ------
    PermafrostError : the disk is full, or nothing can be written there; names `path`.
    """
    path = Path(path)
    with _naming(path):
        partial = _begin(path, clean=exclusive)
        try:
            yield partial
            _sync(partial)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def whole_directory(path) -> Iterator[Path]:
    """Like `whole_file` for a directory: yields a fresh directory that becomes `path`."""
    path = Path(path)
    with _naming(path):
        partial = _begin(path, clean=True)
        try:
            partial.mkdir()
            yield partial
            _take_place(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _begin(path: Path, *, clean: bool) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermafrostError(
            f"the folder cannot be made ({error.strerror})",
            where=path.parent,
            remedy="choose another folder, or put its permissions right",
        ) from error
    if clean:
        for leftover in path.parent.glob(f".{_escape(path.name)}{PARTIAL}*"):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)
    return _beside(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{PARTIAL}{uuid.uuid4().hex[:12]}")


def _take_place(partial: Path, path: Path) -> None:
    """Rename `partial` to `path`; what stood there goes, unless the renaming fails."""
    if not os.path.lexists(path):
        os.rename(partial, path)
        return
    retired = _beside(path)
    os.rename(path, retired)
    try:
        os.rename(partial, path)
    except BaseException:
        os.rename(retired, path)
        raise
    if retired.is_dir() and not retired.is_symlink():
        shutil.rmtree(retired, ignore_errors=True)
    else:
        retired.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn a full disk, or a folder closed to us, into an error that names the output."""
    try:
        yield
    except OSError as error:
        # a refused access to anything but the temporary path is not about this output
        closed = error.errno == errno.EACCES and PARTIAL in str(error.filename)
        if error.errno not in _NO_ROOM and not closed:
            raise
        raise PermafrostError(
            f"it cannot be written ({os.strerror(error.errno)}); nothing half-written was left behind",
            where=path,
            remedy="make room there, or set `results` to a folder with room, then run snakemake again",
        ) from error


def _escape(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
