"""The files below a folder that a source reads, and their digest. Light: used before any job runs."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import code_digest, file_digest
from permafrost.core.promised import file_state
from permafrost.data.files.members import is_junk, walk

# written by operating systems; no reader of torchgeo uses them
_LEFT_BEHIND = ("Thumbs.db", "desktop.ini", ".DS_Store")


@dataclass(frozen=True)
class Read:
    """Which files of a folder a source reads; others are not part of its identity.

    Attributes
    ----------
    hidden : whether hidden files and files that operating systems write count.
    root : only files in this inner folder count; empty for all.
    endings : only names with these endings (in lower case) count; empty for all.
    names : only these files count; empty for all.
    patterns : only names that match one of these count, in which * stands for any characters; empty
        for all.
    """

    hidden: bool = True
    root: str = ""
    endings: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def __call__(self, name: str) -> bool:
        """Whether the file with this relative name counts."""
        if self.names:
            return name in self.names
        if self.patterns and not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return False
        if not self.hidden and is_junk(name):
            return False
        if self.hidden and name.rpartition("/")[2] in _LEFT_BEHIND:
            return False
        return name.startswith(self.root) and (
            not self.endings or name.lower().endswith(self.endings)
        )


def content_digest(path: str | Path, read: Read | None = None) -> str:
    """Digest of a file's content, or of names and contents of the files below a folder that `read` selects.

    A single Python file counts by its code.
    """
    if Path(path).is_dir():
        return folder_digest(path, read)
    return code_digest(path) if is_code(path) else file_digest(path)


def is_code(path: str | Path) -> bool:
    """Whether the file is a Python file."""
    return str(path).endswith(".py")


def folder_files(folder: str | Path, read: Read | None = None) -> list[tuple[str, str]]:
    """(relative name, path) of the files below a folder that `read` selects, links followed, sorted.

    Raises `PermafrostError` for a pipe or device: opening a pipe would wait forever.
    """
    found = []
    for place, folders, files in walk(folder):
        if read is not None and not read.hidden:
            folders[:] = [name for name in folders if not is_junk(name)]
        # Python 3.12 interns every part of a Path and never frees it
        inside = os.path.relpath(place, folder)
        prefix = "" if inside == os.curdir else f"{inside}/"
        for name in files:
            full, relative = os.path.join(place, name), f"{prefix}{name}"
            if read is not None and not read(relative):
                continue
            if os.path.exists(full) and not os.path.isfile(full):
                raise PermafrostError(
                    f"{full} is a pipe, socket or device, not a regular file",
                    remedy="move it out of the data folder",
                )
            found.append((relative, full))
    return sorted(found)


def folder_digest(folder: str | Path, read: Read | None = None) -> str:
    """SHA-256 of sorted relative names and contents of the files below a folder that `read` selects."""
    digest = hashlib.sha256()
    for name, path in folder_files(folder, read):
        line = f"{len(name)}:{name}:{file_digest(path)}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def content_state(path, read: Read | None = None) -> list:
    """The state of a file or folder; it differs after every change of the files that `read` selects."""
    return _folder_state(path, read) if os.path.isdir(path) else file_state(path)


def _folder_state(folder, read: Read | None) -> list:
    """[bytes, hash of names and states of the files that are read, latest times of change]."""
    size, content, inode = 0, 0, 0
    states = hashlib.sha256()
    for name, path in folder_files(Path(folder), read):
        state = file_state(path)
        states.update(f"{name}\0{state}\n".encode("utf-8", "surrogateescape"))
        size, content, inode = size + state[0], max(content, state[2]), max(inode, state[3])
    return [size, states.hexdigest(), content, inode]
