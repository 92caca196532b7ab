"""Atomic outputs: written next to the target, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from permafrost.core.errors import PermafrostError

PARTIAL = ".partial-"
_SMALL = 1 << 16  # bytes that any log or table needs
#: errors of a full or read-only disk
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# errors if another process writes the same output
_DISTURBED = (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST)
_SYNCED_AT_ONCE = 8


# outputs that are renamed together: (temporary path, final path)
Group = list[tuple[Path, Path]]

#: called with the final paths when complete outputs are about to take their places
before_placing: list[Callable[[Sequence[Path]], None]] = []


@contextlib.contextmanager
def whole_file(path, *, exclusive: bool = True, group: Group | None = None) -> Iterator[Path]:
    """Yield a temporary path next to `path`; renamed to `path` on success, removed on an error.

    Parameters
    ----------
    exclusive : remove leftovers of an earlier, killed writer of the same target first. False for a
        file that several processes may write at once; then the last one wins.
    group : of `together`; the file is renamed with the whole group.

    Raises
    ------
    PermafrostError : the disk is full, the folder is not writable, or another process removed the
        temporary path; names `path`.
    """
    path = Path(path)
    with _naming(path):
        partial = _begin(path, clean=exclusive)
        try:
            yield partial
            _sync(partial)
            if group is not None:
                group.append((partial, path))
            else:
                _announce([path])
                os.replace(partial, path)
                _sync(path.parent)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def whole_directory(path, *, group: Group | None = None) -> Iterator[Path]:
    """Like `whole_file` for a directory: yields a new directory that is renamed to `path`."""
    path = Path(path)
    with _naming(path):
        partial = _begin(path, clean=True)
        try:
            partial.mkdir()
            yield partial
            _sync_tree(partial)
            if group is not None:
                group.append((partial, path))
            else:
                _take_places([(partial, path)])
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


@contextlib.contextmanager
def together() -> Iterator[Group]:
    """Yield a group for `whole_file` and `whole_directory`; its outputs are renamed all or not at all.

    They are renamed when the block ends without an error. An error, also while renaming, restores
    the previous files. The last output is renamed last and removed first, so its presence proves
    that the others are complete, also after a kill in between.
    """
    group: Group = []
    try:
        yield group
        _take_places(group)
    except BaseException:
        for partial, _ in group:
            _remove(partial)
        raise


def no_room(folder: Path) -> str | None:
    """The system's error message if `folder` has no space for a small file, else None."""
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(_SMALL))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        return os.strerror(error.errno) if error.errno in NO_ROOM else None
    return None


def _begin(path: Path, *, clean: bool) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermafrostError(
            f"the folder cannot be made ({error.strerror})",
            where=path.parent,
            remedy="choose another folder, or correct its permissions",
        ) from error
    if clean:
        for leftover in path.parent.glob(f".{_escape(path.name)}{PARTIAL}*"):
            _remove(leftover)
    return _beside(path)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{PARTIAL}{uuid.uuid4().hex[:12]}")


def _take_places(group: Group) -> None:
    """Rename all outputs to their final paths, replacing previous ones; an error restores those."""
    retired: Group = []
    placed: Group = []
    _announce([path for _, path in group])
    try:
        for _, path in reversed(group):
            with _naming(path):
                if os.path.lexists(path):
                    away = _beside(path)
                    os.rename(path, away)
                    retired.append((away, path))
        for partial, path in group:
            with _naming(path):
                os.rename(partial, path)
                placed.append((partial, path))
    except BaseException:
        for partial, path in reversed(placed):
            os.rename(path, partial)
        for away, path in reversed(retired):
            os.rename(away, path)
        raise
    for folder in dict.fromkeys(path.parent for _, path in group):
        _sync(folder)
    for away, _ in retired:
        _remove(away)


def _announce(paths: Sequence[Path]) -> None:
    for call in before_placing:
        call(paths)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn a full disk, a missing permission or a second writer into an error that names the output."""
    try:
        yield
    except OSError as error:
        # an error of any other path is not about this output
        ours = PARTIAL in str(error)
        if ours and error.errno in _DISTURBED:
            raise PermafrostError(
                "another process writes the same output, and removed or replaced it meanwhile",
                where=path,
                remedy="let one run at a time write there (no --nolock), then run snakemake again",
            ) from error
        closed = ours and error.errno == errno.EACCES
        if error.errno not in NO_ROOM and not closed:
            raise
        raise PermafrostError(
            f"it cannot be written ({os.strerror(error.errno)}); no partial file was left",
            where=path,
            remedy="make room there, or set `results` to a folder with room, then run snakemake again",
        ) from error


def _escape(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _sync_tree(folder: Path) -> None:
    """Flush every file and folder below `folder` to the disk."""
    places = [
        path
        for place, _, files in os.walk(folder)
        for path in (*(Path(place, name) for name in files), Path(place))
    ]
    # the disk merges concurrent fsyncs: a fifth of the time for the chunks of a store
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as executor:
        for _ in executor.map(_sync, places):
            pass


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
