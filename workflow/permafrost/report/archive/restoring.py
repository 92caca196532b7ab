"""Unpack an archive into a clone, so that Snakemake continues from the end of the run.

An archive may be from any source, so only data are accepted: `contents` lists the allowed files and
folders. Archived code is verified and compared with the clone's, but never written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.inputs import check_regular
from permafrost.core.names import results_refusal
from permafrost.data.files.members import DAMAGED
from permafrost.report.archive.contents import record_refusal, refusals
from permafrost.report.archive.crate import WORKFLOW
from permafrost.report.archive.manifest import (
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
_SHOWN = 8  # files listed in an error message
_LARGEST_TEXT = 1 << 28
_LARGEST_RECORD = 1 << 26
_MOST_PACKED = 1100  # DEFLATE compresses by a factor of at most 1,032
_PLAN = "run/plan.json"
# if records exist without this folder, Snakemake assumes the format of an old version
_INCOMPLETE = ".snakemake/incomplete"
_NOT_OURS = "do not use this archive: it was not written by permafrost"


@dataclass(frozen=True)
class Restored:
    """Result of a restoration.

    Attributes
    ----------
    plan : hash of the archived plan.
    written : files written; same : files that already existed with the same content.
    other_code : workflow files of the folder that differ from the archived ones. They are not
        changed; Snakemake will rerun the jobs that depend on them.
    left_out : stores and predicted masks that the archive does not contain.
    code : workflow files of the archive, if the folder has no workflow. They are not written.
    """

    plan: str
    written: list[str]
    same: list[str]
    other_code: list[str]
    left_out: list[str]
    code: list[str]

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
        if self.code:
            lines.append(
                f"there is no {WORKFLOW} here, and restoring writes no code: clone the version of "
                f"run/code.json, or unzip the archive's {len(self.code)} workflow files if you trust it"
            )
        return "\n".join(lines)


def restore_archive(archive, into, *, overwrite: bool = False) -> Restored:
    """Verify an archive, then write its results and records into a folder, with their time stamps.

    Everything is first unpacked into a temporary folder and verified: a damaged archive changes
    nothing. Only members allowed by `contents` are written, regardless of `overwrite`: no sources,
    profiles, configuration or environment.

    Parameters
    ----------
    archive : a zip file from `archive.write_archive`.
    into : a clone of the repository, or any folder.
    overwrite : replace existing files with different content (otherwise they are an error).

    Raises
    ------
    PermafrostError : the file is not an archive, was damaged or modified, or has a member that is
        not allowed; existing files. Nothing was written then.
    """
    archive, into = Path(archive), Path(into)
    with _open(archive) as packed:
        manifest, members = _read(packed, archive)
        chosen = [member for member in members if member.role in ("result", "record")]
        fresh, same = _compare(chosen, into, overwrite)
        new = not into.exists()
        into.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".restore.partial-", dir=into))
        try:
            _unpack(packed, members, {member.path for member in fresh}, staging, archive)
            _place(staging, fresh, into)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if new and not any(into.iterdir()):
                into.rmdir()
    for member in same:
        _stamp(into / member.path, member)
    (into / _INCOMPLETE).mkdir(parents=True, exist_ok=True)
    code = [member for member in members if member.role == "code"]
    cloned = (into / WORKFLOW).exists()
    return Restored(
        manifest["plan"],
        written=[member.path for member in fresh],
        same=[member.path for member in same],
        other_code=[m.path for m in code if cloned and not _has_content(into / m.path, m)],
        left_out=manifest.get("left_out", []),
        code=[] if cloned else [member.path for member in code],
    )


def check_archive(archive) -> None:
    """Verify every member of an archive, as `restore_archive` does; writes nothing.

    Raises
    ------
    PermafrostError : it is no archive, or was damaged or modified.
    """
    archive = Path(archive)
    with _open(archive) as packed:
        _, members = _read(packed, archive)
        _unpack(packed, members, set(), archive.parent, archive)


@contextlib.contextmanager
def _open(archive: Path) -> Iterator[zipfile.ZipFile]:
    check_regular(archive)
    try:
        packed = zipfile.ZipFile(archive)
    except FileNotFoundError as error:
        raise PermafrostError(
            "the archive does not exist", where=archive, remedy="check the path"
        ) from error
    except (*DAMAGED, OSError) as error:
        raise damaged(f"not a readable zip file ({error})", archive) from error
    with packed:
        yield packed


def _read(packed: zipfile.ZipFile, archive: Path) -> tuple[dict, list[Member]]:
    """The manifest, after checking that names, entries and lists agree."""
    names = packed.namelist()
    _check_entries(packed, archive)
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
    for member in members:
        if packed.getinfo(member.path).file_size != member.size:
            raise damaged(f"{member.path} has not the size that the manifest gives", archive)
    _check_contents(packed, members, archive)
    return manifest, members


def _check_entries(packed: zipfile.ZipFile, archive: Path) -> None:
    """Refuse entries that are not regular files, or are larger than the archive can hold."""
    held = 0
    for entry in packed.infolist():
        check_path(entry.filename, archive)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if (
            kind not in (0, stat.S_IFREG)
            or entry.is_dir()
            or entry.flag_bits & 1
            or entry.filename != entry.orig_filename
            or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        ):
            raise PermafrostError(
                f"{entry.filename!r} is a link, a folder entry, a device, encrypted or packed in"
                " another way than ours",
                where=archive,
                remedy=_NOT_OURS,
            )
        if entry.file_size > _MOST_PACKED * (entry.compress_size + 1):
            raise damaged(f"{entry.filename} declares more bytes than it can hold", archive)
        held += entry.compress_size
    if held > archive.stat().st_size:
        raise damaged("its members overlap", archive)


def _check_contents(packed: zipfile.ZipFile, members: list[Member], archive: Path) -> None:
    """Refuse an archive with a member that is not allowed, or with an invalid record."""
    results = _results_folder(packed, members, archive)
    if reason := results_refusal(results):
        raise PermafrostError(reason, where=archive, remedy=_NOT_OURS)
    refused = refusals(members, cast("str", results))
    for member in members:
        if member.role == "record" and member.path not in refused:
            if member.size > _LARGEST_RECORD:
                refused[member.path] = "too large for a record of Snakemake"
            elif reason := record_refusal(_text(packed, member.path, archive)):
                refused[member.path] = reason
    if refused:
        shown = "; ".join(f"{path} ({reason})" for path, reason in sorted(refused.items())[:_SHOWN])
        more = f" and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise PermafrostError(
            f"the archive contains paths that must not be restored: {shown}{more}; nothing was written",
            where=archive,
            remedy=_NOT_OURS,
        )


def _results_folder(packed: zipfile.ZipFile, members: list[Member], archive: Path) -> object:
    """The results folder, from the archived plan."""
    if _PLAN not in {member.path for member in members}:
        raise damaged(f"it lacks {_PLAN}", archive)
    try:
        plan = json.loads(_text(packed, _PLAN, archive))
    except (ValueError, RecursionError) as error:
        raise damaged(f"{_PLAN} is not JSON ({error})", archive) from error
    results = plan.get("results") if isinstance(plan, dict) else None
    return PurePosixPath(results).as_posix() if isinstance(results, str) else results


def _text(packed: zipfile.ZipFile, path: str, archive: Path) -> bytes:
    if packed.getinfo(path).file_size > _LARGEST_TEXT:
        raise damaged(f"{path} is too large to be true", archive)
    try:
        return packed.read(path)
    except (*DAMAGED, OSError) as error:
        raise damaged(f"{path} cannot be read ({error})", archive) from error


def _compare(
    members: list[Member], into: Path, overwrite: bool
) -> tuple[list[Member], list[Member]]:
    """Split members into those to write and those that exist; report all conflicts in one error."""
    fresh, same, conflicts = [], [], []
    _refuse_links(into, _INCOMPLETE)
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
    """Refuse a link in `path`, which could lead out of the folder."""
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
    """Verify every member, and write the members in `keep` below `staging`."""
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
        except DAMAGED as error:
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
    # records last: without them, no output counts as finished
    for member in sorted(members, key=lambda member: member.role == "record"):
        target = into / member.path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(staging / member.path, target)
        _stamp(target, member)


def _stamp(path: Path, member: Member) -> None:
    os.utime(path, ns=(member.mtime_ns, member.mtime_ns))
