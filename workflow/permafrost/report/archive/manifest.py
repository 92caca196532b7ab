"""The list of an archive's members with size, SHA-256, time stamp and role."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from permafrost.core.errors import PermafrostError

MANIFEST = "run/manifest.json"
CHECKSUMS = "run/SHA256SUMS"
CRATE = "ro-crate-metadata.json"
FORMAT = 1
ROLES = ("result", "record", "code", "run")  # run: description of the run, written for the archive
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SCHEMA = {
    "type": "object",
    "required": ["format", "plan", "files"],
    "properties": {
        "format": {"type": "integer"},
        "plan": {"type": "string", "pattern": "^[0-9a-zA-Z]{1,64}$"},
        "left_out": _TEXTS,
        "stores": _TEXTS,
        "without_record": _TEXTS,
        "records": {"type": "object", "additionalProperties": {"type": "string"}},
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "size", "sha256", "mtime_ns", "role"],
                "additionalProperties": False,
                "properties": {
                    "path": {"type": "string", "minLength": 1},
                    "size": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
                    "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                    "mtime_ns": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
                    "role": {"enum": list(ROLES)},
                },
            },
        },
    },
}


@dataclass(frozen=True)
class Member:
    """A file of an archive.

    Attributes
    ----------
    path : inside the archive, and relative to the folder that it is restored into.
    size : bytes; sha256 : of its content; mtime_ns : nanoseconds since 1970.
    role : result, record (of Snakemake), code, or run.
    """

    path: str
    size: int
    sha256: str
    mtime_ns: int
    role: str


def describe_file(root: Path, path: Path, role: str) -> Member:
    """The `Member` of a file on disk."""
    with open(root / path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    status = (root / path).stat()
    return Member(path.as_posix(), status.st_size, digest, status.st_mtime_ns, role)


def describe_text(path: str, content: bytes, mtime_ns: int) -> Member:
    """The `Member` of content that exists only in the archive."""
    return Member(path, len(content), hashlib.sha256(content).hexdigest(), mtime_ns, "run")


def manifest_json(plan: str, members: list[Member], **more) -> bytes:
    """The manifest: the archived plan, and the members in order."""
    content = {
        "format": FORMAT,
        "plan": plan,
        **more,
        "files": [asdict(member) for member in members],
    }
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def checksum_lines(digests: dict[str, str]) -> bytes:
    """Lines in the format of ``sha256sum --check``."""
    return "".join(f"{digest}  {path}\n" for path, digest in sorted(digests.items())).encode()


def read_checksums(content: bytes, where) -> dict[str, str]:
    """Path -> SHA-256 of `checksum_lines`.

    Raises
    ------
    PermafrostError : a line that is not a checksum and a path.
    """
    checksums = {}
    for line in content.decode("utf-8", errors="replace").splitlines():
        digest, separator, path = line.partition("  ")
        if not separator or len(digest) != 64:
            raise damaged(f"{CHECKSUMS} is not a list of checksums", where)
        checksums[path] = digest
    return checksums


def read_manifest(content: bytes, where) -> tuple[dict, list[Member]]:
    """The manifest's content and its members, checked for types and for safe and unique paths.

    Raises
    ------
    PermafrostError : invalid JSON, another format version, wrong types, an unsafe or duplicate path.
    """
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(f"{MANIFEST} is not JSON ({error})", where) from error
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if isinstance(version, int) and version != FORMAT:
        raise PermafrostError(
            f"the archive has format {version}, this version reads format {FORMAT}",
            where=where,
            remedy="use the version of permafrost that the archive names in run/code.json",
        )
    _check_types(manifest, where)
    members = [Member(**entry) for entry in manifest["files"]]
    for member in members:
        check_path(member.path, where)
    if len({member.path for member in members}) < len(members):
        raise damaged("a file is listed twice", where)
    return manifest, members


def _check_types(manifest, where) -> None:
    from jsonschema import Draft202012Validator

    for error in Draft202012Validator(_SCHEMA).iter_errors(manifest):
        place = "".join(f"[{part!r}]" for part in error.absolute_path)
        message = error.message if len(error.message) < 200 else f"{error.message[:200]} …"
        raise damaged(f"{MANIFEST}{place}: {message}", where)


def check_path(path: str, where) -> None:
    """Refuse a path that is absolute, leaves the folder, or is ambiguous on another system."""
    pure = PurePosixPath(path)
    unsafe = (
        not path
        or pure.is_absolute()
        or ".." in pure.parts
        or pure.as_posix() != path
        or "\\" in path
        or "\0" in path
        or ":" in pure.parts[0]
    )
    if unsafe:
        raise PermafrostError(
            f"the archive holds the unsafe path {path!r}",
            where=where,
            remedy="do not use this archive: it was not written by permafrost",
        )


def damaged(problem: str, where) -> PermafrostError:
    """The error of a damaged archive, with its remedy."""
    return PermafrostError(problem, where=where, remedy="get an undamaged copy of the archive")
