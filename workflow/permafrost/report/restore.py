"""Unpacking an archive into a clone, so that Snakemake goes on where the run ended."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest

from .crate import WORKFLOW
from .manifest import (
    CHECKSUMS,
    CRATE,
    MANIFEST,
    Member,
    check_path,
    damaged,
    read_checksums,
    read_manifest,
)

_CHUNK = 1 << 20
_SHOWN = 8  # files that an error names
_LARGEST_TEXT = 1 << 30


@dataclass(frozen=True)
class Restored:
    """What a restoration did.

    Attributes
    ----------
    plan : hash of the archived plan.
    written : files written; same : files that were there already with the same content.
    other_code : workflow files of the folder that differ from the archived ones. They are left as
        they are; Snakemake will run again what depends on them.
    left_out : stores and predicted masks that the archive does not hold.
    """

    plan: str
    written: list[str]
    same: list[str]
    other_code: list[str]
    left_out: list[str]

    def __str__(self) -> str:
        lines = [
            f"plan {self.plan}: {len(self.written)} files written, {len(self.same)} were there already"
        ]
        if self.left_out:
            lines.append(
                f"{len(self.left_out)} stores or masks are not in the archive (made again when needed)"
            )
        if self.other_code:
            shown = ", ".join(self.other_code[:8]) + (", …" if len(self.other_code) > 8 else "")
            lines.append(
                f"{len(self.other_code)} workflow files here differ from the archived ones: {shown}; "
                "what depends on them will run again"
            )
        return "\n".join(lines)


def restore_archive(archive, into, *, overwrite: bool = False) -> Restored:
    """Verify an archive, then put its results and records into a folder with their time stamps.

    Everything is unpacked and verified beside its place first: a damaged archive changes nothing.
    The workflow's own files are written only into a folder that has no Snakefile.

    Parameters
    ----------
    archive : a zip of `archive.write_archive`.
    into : a clone of the repository, or any folder.
    overwrite : replace existing files of other content (otherwise they are an error).

    Raises
    ------
    PermafrostError : not an archive, damaged or tampered with, unsafe member, existing files.
    """
    archive, into = Path(archive), Path(into)
    with _open(archive) as packed:
        manifest, members = _read(packed, archive)
        chosen, other_code = _choose(members, into)
        fresh, same = _compare(chosen, into, overwrite)
        into.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".restore.partial-", dir=into))
        try:
            _unpack(packed, members, {member.path for member in fresh}, staging, archive)
            _place(staging, fresh, into)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    for member in same:
        _stamp(into / member.path, member)
    # with records but without this folder, Snakemake believes it meets the format of an old version
    (into / ".snakemake" / "incomplete").mkdir(parents=True, exist_ok=True)
    return Restored(
        manifest["plan"],
        [member.path for member in fresh],
        [member.path for member in same],
        other_code,
        manifest.get("left_out", []),
    )


@contextlib.contextmanager
def _open(archive: Path) -> Iterator[zipfile.ZipFile]:
    try:
        packed = zipfile.ZipFile(archive)
    except FileNotFoundError as error:
        raise PermafrostError(
            "the archive does not exist", where=archive, remedy="check the path"
        ) from error
    except (zipfile.BadZipFile, OSError) as error:
        raise damaged(f"not a readable zip file ({error})", archive) from error
    with packed:
        yield packed


def _read(packed: zipfile.ZipFile, archive: Path) -> tuple[dict, list[Member]]:
    """The manifest, after checking that names, entries and lists agree with each other."""
    names = packed.namelist()
    for entry in packed.infolist():
        check_path(entry.filename, archive)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or entry.is_dir() or entry.flag_bits & 1:
            raise PermafrostError(
                f"{entry.filename!r} is a link, a folder entry, a device or encrypted",
                where=archive,
                remedy="do not use this archive: it was not written by permafrost",
            )
    if len(set(names)) < len(names):
        raise damaged("a name occurs twice", archive)
    for needed in (MANIFEST, CHECKSUMS, CRATE):
        if needed not in names:
            raise PermafrostError(
                f"not an archive of permafrost (no {needed})",
                where=archive,
                remedy="check the path",
            )
    sums = read_checksums(_text(packed, CHECKSUMS, archive), archive)
    for path in (MANIFEST, CRATE):
        if hashlib.sha256(_text(packed, path, archive)).hexdigest() != sums.get(path):
            raise damaged(f"{path} is not what its checksum says", archive)
    manifest, members = read_manifest(_text(packed, MANIFEST, archive), archive)
    listed = {member.path: member.sha256 for member in members}
    listed |= {path: sums[path] for path in (MANIFEST, CRATE)}
    if listed != sums or set(names) != {*listed, CHECKSUMS}:
        raise damaged("its members, manifest and checksums do not agree", archive)
    return manifest, members


def _text(packed: zipfile.ZipFile, path: str, archive: Path) -> bytes:
    if packed.getinfo(path).file_size > _LARGEST_TEXT:
        raise damaged(f"{path} is too large to be true", archive)
    try:
        return packed.read(path)
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise damaged(f"{path} cannot be read ({error})", archive) from error


def _choose(members: list[Member], into: Path) -> tuple[list[Member], list[str]]:
    """Members to put into place, and the folder's workflow files that differ from the archive's."""
    chosen = [member for member in members if member.role in ("result", "record")]
    code = [member for member in members if member.role == "code"]
    if not (into / WORKFLOW).exists():
        return chosen + code, []
    return chosen, [member.path for member in code if not _has_content(into / member.path, member)]


def _compare(
    members: list[Member], into: Path, overwrite: bool
) -> tuple[list[Member], list[Member]]:
    """Split members into those to write and those that are there; conflicts are one error."""
    fresh, same, conflicts = [], [], []
    for member in members:
        target = into / member.path
        _refuse_links(into, member.path)
        if _has_content(target, member):
            same.append(member)
        elif target.is_dir() or (target.exists() and not overwrite):
            conflicts.append(member.path)
        else:
            fresh.append(member)
    if conflicts:
        shown = ", ".join(conflicts[:_SHOWN])
        more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
        raise PermafrostError(
            f"{len(conflicts)} files exist with other content: {shown}{more}",
            where=into,
            remedy="restore into a clone without results, or give --overwrite to replace them",
        )
    return fresh, same


def _refuse_links(into: Path, path: str) -> None:
    """A link on the way could lead out of the folder."""
    place = into
    for part in Path(path).parts:
        place = place / part
        if place.is_symlink():
            raise PermafrostError(
                f"{place.relative_to(into)} is a symbolic link, through which {path} would be written",
                where=into,
                remedy="restore into a folder without links in results and .snakemake",
            )


def _has_content(path: Path, member: Member) -> bool:
    return (
        path.is_file() and path.stat().st_size == member.size and file_digest(path) == member.sha256
    )


def _unpack(
    packed: zipfile.ZipFile, members: list[Member], keep: set[str], staging: Path, archive: Path
):
    """Verify every member, and write those to keep below `staging`."""
    needed = sum(member.size for member in members if member.path in keep)
    free = shutil.disk_usage(staging).free
    if needed > free:
        raise PermafrostError(
            f"{needed / 2**20:.0f} MiB are needed, {free / 2**20:.0f} MiB are free",
            where=staging.parent,
            remedy="make room and restore again",
        )
    for member in members:
        target = staging / member.path
        if member.path in keep:
            target.parent.mkdir(parents=True, exist_ok=True)
        else:
            target = Path(os.devnull)
        try:
            size, digest = _copy(packed, member, target)
        except (zipfile.BadZipFile, EOFError, zipfile.zlib.error) as error:
            raise damaged(f"{member.path} cannot be read ({error})", archive) from error
        if (size, digest) != (member.size, member.sha256):
            raise damaged(f"{member.path} is not what its checksum says", archive)


def _copy(packed: zipfile.ZipFile, member: Member, target: Path) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    with packed.open(member.path) as stream, open(target, "wb") as file:
        while size <= member.size and (chunk := stream.read(_CHUNK)):
            size += len(chunk)
            digest.update(chunk)
            file.write(chunk)
    return size, digest.hexdigest()


def _place(staging: Path, members: list[Member], into: Path) -> None:
    # records last: until they are there, nothing counts as finished by their word
    for member in sorted(members, key=lambda member: member.role == "record"):
        target = into / member.path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / member.path, target)
        _stamp(target, member)


def _stamp(path: Path, member: Member) -> None:
    os.utime(path, ns=(member.mtime_ns, member.mtime_ns))
