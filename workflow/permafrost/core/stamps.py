"""Stamps: small files, written last, that list a job's output files with their digests.

They serve outputs that cannot hold a fingerprint, such as CSV files, pages and pictures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import content_digest, file_digest
from permafrost.core.outputs import whole_file
from permafrost.core.tables import check_fingerprint

_DIGEST = "sha256"  # key of the SHA-256 of all other keys
_REMEDY = "delete the stamp and run snakemake again"


def write_stamp(path, fingerprint: str, files: Iterable[Path]) -> None:
    """Write a stamp with the plan's `fingerprint` and the SHA-256 of `files`.

    File names are relative to the results folder, which is the parent of the stamp's folder.
    """
    folder = Path(path).parent.parent
    digests = {Path(os.path.relpath(file, folder)).as_posix(): file_digest(file) for file in files}
    content = {"fingerprint": fingerprint, "files": dict(sorted(digests.items()))}
    content[_DIGEST] = content_digest(content, _DIGEST)
    with whole_file(path) as partial:
        partial.write_text(_text(content), "utf-8")


def altered_files(path, *, expect: str) -> dict[Path, str]:
    """Files of a stamp that have changed: path -> reason (missing, altered or unreadable).

    Raises
    ------
    PermafrostError : the stamp is missing or damaged, or its fingerprint is not `expect`.
    """
    path = Path(path)
    found = {}
    for name, digest in read_stamp(path, expect=expect).items():
        file = path.parent.parent / name
        try:
            same = file_digest(file) == digest
        except FileNotFoundError:
            found[file] = "missing"
        except OSError as error:
            found[file] = f"it cannot be read ({error.strerror})"
        else:
            if not same:
                found[file] = "altered since it was written"
    return found


def lost_files(path, *, expect: str) -> list[Path]:
    """Files of a stamp that do not exist; the stamp itself if it is missing or damaged."""
    path = Path(path)
    try:
        files = [path.parent.parent / name for name in read_stamp(path, expect=expect)]
    except PermafrostError:
        return [path]
    return [file for file in files if not file.exists()]


def refuse_altered(path, *, expect: str) -> None:
    """Raise `PermafrostError` if a file of a stamp is missing or was altered; names the file."""
    for file, reason in altered_files(path, expect=expect).items():
        raise PermafrostError(
            f"the file is {reason}" if reason == "missing" else reason,
            where=file,
            remedy="run `permafrost stale --delete`, then snakemake again",
        )


def read_stamp(path: Path, *, expect: str) -> dict[str, str]:
    """The files of a stamp, relative to the results folder, with their SHA-256.

    Raises
    ------
    PermafrostError : as `altered_files`.
    """
    try:
        text = path.read_text("utf-8")
        content = json.loads(text)
        made, files = content["fingerprint"], content["files"]
        # a stamp may come from an untrusted archive: its paths must stay inside the results folder
        whole = all(
            isinstance(digest, str)
            and not Path(name).is_absolute()
            and ".." not in Path(name).parts
            for name, digest in files.items()
        )
    except FileNotFoundError as error:
        raise PermafrostError(
            "the stamp does not exist", where=path, remedy="run snakemake"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PermafrostError("the stamp is damaged", where=path, remedy=_REMEDY) from error
    sealed = text == _text(content) and content.get(_DIGEST) == content_digest(content, _DIGEST)
    if not whole or not sealed:
        raise PermafrostError("the stamp is damaged", where=path, remedy=_REMEDY)
    check_fingerprint(path, made, expect)
    return files


def _text(content: dict) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
