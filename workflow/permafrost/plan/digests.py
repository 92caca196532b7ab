"""Content digests of the files and folders a plan depends on, remembered while their state stays the same."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
import time
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.data.digest import content_digest, folder_files

# a file that changed just now may change again without its time stamp moving on
_SETTLED_NS = 2_000_000_000
# reading more than this takes long enough to be announced
_LARGE = 2 * 10**9


class DigestCache:
    """SHA-256 of files and folders; what did not change its state since the last run is not read again.

    The state of a file is size, inode and both times of change; that of a folder, the states of all files
    below it. The time of the inode's change counts because it cannot be set: a file put in another's
    place with the same size and date is noticed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list] = self._load()
        self._changed = False

    def digest(self, file) -> str:
        """SHA-256 of the content of `file`; a folder is refused."""
        return self._digest(file, _file_state)

    def content(self, path) -> str:
        """SHA-256 of the content of `path`, a file or a folder."""
        return self._digest(path, _folder_state if os.path.isdir(path) else _file_state)

    def _digest(self, path, state_of) -> str:
        try:
            state = state_of(path)
            key = os.path.abspath(path)
            known = self._known.get(key)
            if known is None or known[:-1] != state:
                if state[0] > _LARGE:
                    print(
                        f"permafrost: reading {path} ({state[0] / 1e9:.0f} GB) once",
                        file=sys.stderr,
                    )
                self._known[key] = known = [*state, content_digest(Path(path))]
                self._changed = True
        except OSError as error:
            raise PermafrostError(
                f"{error.filename or path} cannot be read ({error.strerror})",
                remedy="correct the path in the entry, or `data:` in the configuration",
            ) from error
        return known[-1]

    def save(self) -> None:
        """Write the cache if something was added; a cache that cannot be written is no error."""
        if not self._changed:
            return
        settled = time.time_ns() - _SETTLED_NS
        lasting = {key: known for key, known in self._known.items() if known[3] < settled}
        try:
            with whole_file(self.path, exclusive=False) as partial:
                partial.write_text(json.dumps(lasting))
        except (OSError, PermafrostError):
            return
        self._changed = False

    def _load(self) -> dict:
        try:
            known = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _file_state(path) -> list:
    """[size, inode, time of change of the content, and of the inode]."""
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _folder_state(folder) -> list:
    """[bytes, hash of the names and states of all files, latest times of change]."""
    size, content, inode = 0, 0, 0
    states = hashlib.sha256()
    for name, path in folder_files(Path(folder)):
        state = _file_state(path)
        states.update(f"{name}\0{state}\n".encode("utf-8", "surrogateescape"))
        size, content, inode = size + state[0], max(content, state[2]), max(inode, state[3])
    return [size, states.hexdigest(), content, inode]
