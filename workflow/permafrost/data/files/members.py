"""Image files in a directory, a zip or a tar, read in place without unpacking.

Names that could lead out of the folder or archive (absolute, with ``..``) are refused even though no
file is written, because sample names come from them. Links are followed in a directory, which is the
user's own, and refused in an archive.
"""

from __future__ import annotations

import io
import lzma
import os
import posixpath
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Protocol

from permafrost.core.errors import PermafrostError

# names with a dot are hidden files, except the metadata of zarr's version 2
_JUNK = re.compile(
    r"(^|/)(__MACOSX|\.(?!z(?:array|attrs|group|metadata)(?:/|$))[^/]*|Thumbs\.db|desktop\.ini)(/|$)"
)
_PIECE = 1 << 20
#: what zipfile and tarfile raise for damaged or malicious archives, besides OSError; RuntimeError and ValueError
#: also stand for methods of compression and names of files that they do not know
DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    RuntimeError,
    ValueError,
)
_REMEDY = "repack the data without it"


class Members(Protocol):
    """Files by name with forward slashes, relative to the directory or archive; sorted."""

    place: Path
    names: list[str]

    def read(self, name: str) -> bytes: ...

    def size(self, name: str) -> int:
        """Size in bytes of what `read` would return."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """The open file, for reading a part of it."""
        ...

    def location(self, name: str) -> str:
        """Path of the file for GDAL."""
        ...

    def verify(self, name: str) -> None:
        """Compare the whole file with the archive's checksum, once per file.

        `read` does this itself.
        """
        ...


def open_members(path, *, where: object, read: bool = True) -> Members:
    """Open a directory, a ``.zip``, or a ``.tar`` (also compressed).

    Parameters
    ----------
    read : whether files will be read; if not, a compressed tar is not unpacked.

    Raises
    ------
    PermafrostError : it does not exist, has another format, is damaged, or holds names that lead
        out of it or are not UTF-8, or members that are not files.
    """
    path = Path(path)
    if not path.exists():
        raise PermafrostError(
            f"{path} does not exist", where=where, remedy="correct the path, or get the data first"
        )
    if path.is_dir():
        return DirectoryMembers(path, where)
    try:
        if zipfile.is_zipfile(path):
            return ZipMembers(path, where)
        if tarfile.is_tarfile(path):
            return TarMembers(path, where, read)
    except (*DAMAGED, OSError) as error:
        raise PermafrostError(
            f"{path} is a damaged archive ({error})", where=where, remedy="get the file again"
        ) from error
    raise PermafrostError(
        f"{path} is neither a directory nor a zip or tar archive",
        where=where,
        remedy="point to one of these; a broken download is often a short text file",
    )


def is_junk(name: str) -> bool:
    """Whether it is a file that operating systems write: a hidden file or a thumbnail."""
    return bool(_JUNK.search(name))


def folder_prefix(root: str) -> str:
    """Prefix of the names in the folder `root` of a directory or archive; empty for the top."""
    root = root.strip("/")
    return f"{root}/" if root else ""


def check_name(name: str, place: Path, where: object) -> str:
    """The normalised member name; raises `PermafrostError` if it leads out of the directory or archive."""
    if (
        name.startswith(("/", "\\"))
        or re.match(r"^[A-Za-z]:", name)
        or ".." in re.split(r"[/\\]", name)
        or "\0" in name
    ):
        raise _refuse(f"{place} holds the name {name!r}, which leads out of it", where)
    return posixpath.normpath(name)


def _refuse(problem: str, where: object) -> PermafrostError:
    return PermafrostError(problem, where=where, remedy=_REMEDY)


def _unique(names: list[str], place: Path, where: object) -> list[str]:
    """The names in order; refuses duplicates and names that a table of samples cannot store."""
    names = sorted(names)
    for name in names:
        # bytes that are not UTF-8 appear as lone surrogates in names
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise PermafrostError(
                f"{place} holds a file whose name is not UTF-8: {os.fsencode(name)!r}",
                where=where,
                remedy="rename it, e.g. with convmv -f latin1 -t utf8",
            )
    for one, other in zip(names, names[1:], strict=False):
        if one == other:
            raise _refuse(f"{place} holds {one!r} twice", where)
    return names


def walk(top: str | Path, where: object = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """Like `os.walk`, through links to folders, which may lie anywhere; the caller may drop names of folders.

    Raises
    ------
    PermafrostError : a link leads to a folder that it lies in, so that there would be no end.
    """
    top = os.fspath(top).rstrip("/") or "/"
    for place, folders, files in os.walk(top, followlinks=True):
        yield place, folders, files
        for full in (os.path.join(place, name) for name in folders):
            if not os.path.islink(full):
                continue
            target, above = os.path.realpath(full), place
            while not _lies_in(os.path.realpath(above), target):
                if above == top:
                    break
                above = os.path.dirname(above)
            else:
                raise PermafrostError(
                    f"{full} is a link to {target}, in which it lies itself",
                    where=where,
                    remedy="remove the link",
                )


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


class DirectoryMembers:
    """Regular files below a directory, links followed. Pipes, devices and links to nothing are refused."""

    def __init__(self, path: Path, where: object) -> None:
        self.place = path
        found: list[str] = []
        for folder, folders, files in walk(path, where):
            folders[:] = sorted(name for name in folders if not is_junk(name))
            for name in [*folders, *(name for name in files if not is_junk(name))]:
                full = os.path.join(folder, name)
                if not (os.path.isfile(full) or os.path.isdir(full)):
                    what = "a link to nothing" if os.path.islink(full) else "not a regular file"
                    raise PermafrostError(
                        f"{full} is {what}", where=where, remedy="move it elsewhere"
                    )
            # Python 3.12 interns every part of a Path and never frees it
            inside = os.path.relpath(folder, path)
            prefix = "" if inside == os.curdir else f"{inside}/"
            found += [f"{prefix}{name}" for name in files if not is_junk(name)]
        self.names = _unique(found, path, where)

    def read(self, name: str) -> bytes:
        with self.open(name) as stream:
            return stream.read()

    def size(self, name: str) -> int:
        return os.stat(self.location(name)).st_size

    def open(self, name: str) -> IO[bytes]:
        return open(self.location(name), "rb")

    def location(self, name: str) -> str:
        return os.path.join(self.place, name)

    def verify(self, name: str) -> None:
        """Does nothing: directories have no checksums."""


class ZipMembers:
    """Members of a zip archive; every read verifies the archive's CRC-32."""

    def __init__(self, path: Path, where: object) -> None:
        self.place = path
        self._archive = zipfile.ZipFile(path)
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._verified: set[str] = set()
        names = []
        for info in self._archive.infolist():
            # the stored name: zipfile cuts and rewrites some names
            name = check_name(info.orig_filename, path, where)
            if stat.S_ISLNK(info.external_attr >> 16):
                raise _refuse(f"{path} holds the link {name!r}", where)
            if info.is_dir() or is_junk(name):
                continue
            if info.flag_bits & 1:
                raise _refuse(f"{path} holds the encrypted file {name!r}", where)
            names.append(name)
            self._infos[name] = info
        self.names = _unique(names, path, where)

    def read(self, name: str) -> bytes:
        return self._archive.read(self._infos[name])

    def size(self, name: str) -> int:
        return self._infos[name].file_size

    def open(self, name: str) -> IO[bytes]:
        return self._archive.open(self._infos[name])

    def location(self, name: str) -> str:
        # braces allow an archive with any ending
        return f"/vsizip/{{{self.place}}}/{name}"

    def verify(self, name: str) -> None:
        if name in self._verified:
            return
        with self.open(name) as stream:
            while stream.read(_PIECE):
                pass
        self._verified.add(name)


class TarMembers:
    """Members of a tar archive. A compressed one is unpacked once into an unnamed temporary file."""

    def __init__(self, path: Path, where: object, read: bool) -> None:
        self.place = path
        with tarfile.open(path) as archive:
            plain = not read or _is_plain(path)
            self._places: dict[str, tuple[int, int]] = {}
            names = []
            spool = None if plain else tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as self
            for member in archive:
                name = check_name(member.name, path, where)
                if member.issym() or member.islnk():
                    raise _refuse(f"{path} holds the link {name!r}", where)
                if member.isdir() or is_junk(name):
                    continue
                if not member.isreg() or member.issparse():
                    raise _refuse(f"{path} holds {name!r}, which is not a regular file", where)
                names.append(name)
                self._places[name] = (
                    (member.offset_data, member.size) if plain else _spool(archive, member, spool)
                )
            check_end(archive)
        self.names = _unique(names, path, where)
        self._spool = spool

    def read(self, name: str) -> bytes:
        offset, size = self._places[name]
        # a dataset may have thousands of archives, so only unpacked ones stay open
        with open(self.place, "rb") if self._spool is None else nullcontext(self._spool) as stream:
            # pread uses no shared file position, so threads do not interfere
            data = os.pread(stream.fileno(), size, offset)
        if len(data) != size:
            raise OSError(f"{name} is truncated in its archive")
        return data

    def size(self, name: str) -> int:
        return self._places[name][1]

    def open(self, name: str) -> IO[bytes]:
        return io.BytesIO(self.read(name))

    def location(self, name: str) -> str:
        offset, size = self._places[name]
        # the temporary file has no name
        place = self.place if self._spool is None else f"/dev/fd/{self._spool.fileno()}"
        return f"/vsisubfile/{offset}_{size},{place}"

    def verify(self, name: str) -> None:
        """Does nothing: tars have no checksums of contents."""


def _is_plain(path: Path) -> bool:
    try:
        with tarfile.open(path, mode="r:"):
            return True
    except tarfile.TarError:
        return False


def check_end(archive: tarfile.TarFile) -> None:
    """Raise `tarfile.ReadError` without an end mark: tarfile takes a truncated or damaged header for the end."""
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f"truncated or damaged after {archive.offset} bytes")


def _spool(archive: tarfile.TarFile, member: tarfile.TarInfo, spool) -> tuple[int, int]:
    offset = spool.tell()
    shutil.copyfileobj(archive.extractfile(member), spool, _PIECE)
    spool.flush()
    return offset, member.size
