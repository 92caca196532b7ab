"""Unpack an untrusted archive: regular files only, into one folder only."""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.outputs import whole_directory
from permafrost.core.progress import byte_progress
from permafrost.core.text import bytes_words
from permafrost.data.download.steps import Unpack
from permafrost.data.files.members import DAMAGED, check_end, check_name

_CHUNK = 1 << 20
_MOST_PACKED = 1100  # DEFLATE compresses by a factor of at most 1,032
_STAGING = ".unpack.partial-"


class _Member(NamedTuple):
    """A regular file of an archive."""

    path: PurePosixPath
    size: int
    stream: IO[bytes]


def unpack(step: Unpack) -> None:
    """Unpack an archive into a temporary folder next to the target, then move the members there.

    Raises
    ------
    PermafrostError : the archive is unreadable or damaged; a member leads out of the folder, is a
        link or a device, occurs twice, or is larger than its compressed size allows; the disk is
        too small. Nothing is moved then.
    """
    if step.whole:
        with whole_directory(step.folder) as staging:
            _write_members(step.archive, staging)
            _drop_single_folder(staging)
        step.archive.unlink()
        return
    step.folder.mkdir(parents=True, exist_ok=True)
    for leftover in step.folder.glob(f"{_STAGING}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=step.folder))
    try:
        _write_members(step.archive, staging)
        _refuse_links(staging, step.folder, step.archive)
        _move(staging, step.folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _write_members(archive: Path, folder: Path) -> None:
    label = f"unpacking {archive.name}"
    written: set[PurePosixPath] = set()
    most = _MOST_PACKED * archive.stat().st_size
    try:
        with byte_progress(total=None, label=label) as bar:
            for member in _members(archive):
                if member.path in written:
                    raise _hostile(archive, member.path, "occurs twice")
                written.add(member.path)
                most -= member.size
                if most < 0:
                    raise _hostile(archive, member.path, "declares more than it can hold")
                _check_room(member, folder, archive)
                target = folder / member.path
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as file:
                    while chunk := member.stream.read(_CHUNK):
                        file.write(chunk)
                        bar.update(len(chunk))
    except (*DAMAGED, OSError) as error:
        raise PermafrostError(
            f"cannot be unpacked ({first_line(error, named=True)})",
            where=archive,
            remedy="make room if the disk is full, else delete the archive and fetch again",
        ) from error
    if not written:
        raise PermafrostError(
            "holds no files", where=archive, remedy="delete the archive and fetch again"
        )


def _members(archive: Path) -> Iterator[_Member]:
    if zipfile.is_zipfile(archive):
        return _of_zip(archive)
    if tarfile.is_tarfile(archive):
        return _of_tar(archive)
    raise PermafrostError(
        "is neither a zip nor a tar archive",
        where=archive,
        remedy="unpack it by hand; the server may have sent a web page instead",
    )


def _of_zip(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as packed:
        entries = packed.infolist()
        if sum(entry.compress_size for entry in entries) > archive.stat().st_size:
            raise _hostile(archive, entries[0].filename, "overlaps another member")
        for entry in entries:
            path = _inside(entry.filename, archive)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _hostile(archive, path, "is a link or a device")
            if entry.flag_bits & 1:
                raise _hostile(archive, path, "is encrypted")
            if not entry.is_dir():
                with packed.open(entry) as stream:
                    yield _Member(path, entry.file_size, stream)


def _of_tar(archive: Path) -> Iterator[_Member]:
    with tarfile.open(archive) as packed:
        for entry in packed:
            path = _inside(entry.name, archive)
            if entry.isdir():
                continue
            if not entry.isfile():
                raise _hostile(archive, path, "is a link or a device")
            with packed.extractfile(entry) as stream:
                yield _Member(path, entry.size, stream)
        check_end(packed)


def _inside(name: str, archive: Path) -> PurePosixPath:
    """The member's relative path; raises `PermafrostError` if it leads out of the folder."""
    return PurePosixPath(check_name(name, archive, None))


def _check_room(member: _Member, folder: Path, archive: Path) -> None:
    free = shutil.disk_usage(folder).free
    if member.size > free:
        raise PermafrostError(
            f"{member.path} has {bytes_words(member.size)}, and {bytes_words(free)} are free",
            where=archive,
            remedy="make room and fetch again",
        )


def _drop_single_folder(staging: Path) -> None:
    """Replace the only folder in `staging` by its content."""
    inner = list(staging.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        aside = inner[0].rename(staging / f"{_STAGING}only")
        for item in aside.iterdir():
            item.rename(staging / item.name)
        aside.rmdir()


def _refuse_links(staging: Path, folder: Path, archive: Path) -> None:
    """Refuse existing links in the folder: members could follow them out of it."""
    for place, _, files in os.walk(staging):
        inner = Path(place).relative_to(staging)
        for path in (inner, *(inner / name for name in files)):
            if path.parts and (folder / path).is_symlink():
                raise PermafrostError(
                    f"{path} is a symbolic link, through which the archive's members would be written",
                    where=folder,
                    remedy="fetch into a folder without links",
                )


def _move(source: Path, target: Path) -> None:
    """Move the content of `source` to `target`; folders that do not exist there move as a whole."""
    for item in source.iterdir():
        place = target / item.name
        if item.is_dir() and place.is_dir():
            _move(item, place)
        else:
            os.replace(item, place)


def _hostile(archive: Path, member: object, what: str) -> PermafrostError:
    return PermafrostError(
        f"the member {str(member)!r} {what}; nothing was unpacked",
        where=archive,
        remedy="do not use this archive",
    )
