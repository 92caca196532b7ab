"""Content digests of a plan's files and folders, cached while their state is unchanged."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.outputs import whole_file
from permafrost.core.promised import file_state
from permafrost.data.files.folders import Read, content_digest, content_state, is_code

#: the cache file, below the working directory
DIGESTS = ".snakemake/permafrost/digests.json"
# a file that has just changed may change again within the resolution of its time stamp
_SETTLED_NS = 2_000_000_000
# bytes; larger files take long to read, so a message announces them
_LARGE = 2 * 10**9


class DigestCache:
    """SHA-256 of files and folders; only those whose state changed since the last run are read.

    The state of a file is its size, inode, mtime and ctime; that of a folder is the states of all
    files below it. The ctime cannot be set by a user, so it reveals a replacement with the same
    size and mtime.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list] = self._load()
        self._changed = False

    def digest(self, file) -> str:
        """SHA-256 of the content of `file`; of a Python file, of its code.

        Raises
        ------
        PermafrostError : the file cannot be read, or is a folder.
        """
        return self._digest(file, _state_of_file)

    def content(self, path, read: Read | None = None) -> str:
        """SHA-256 of the content of a file, or of a folder; `read` selects the files that count.

        Raises
        ------
        PermafrostError : a file cannot be read.
        """
        return self._digest(path, content_state, read)

    def _digest(self, path, state_of, read: Read | None = None) -> str:
        try:
            state = state_of(path, read)
            key = os.path.abspath(path) + (f" {read}" if read and os.path.isdir(path) else "")
            # earlier releases kept digests of their bytes
            key += " code" if is_code(path) else ""
            known = self._known.get(key)
            if known is None or known[:-1] != state:
                if state[0] > _LARGE:
                    print(
                        f"permafrost: reading {path} ({state[0] / 1e9:.0f} GB) once",
                        file=sys.stderr,
                    )
                self._known[key] = known = [*state, content_digest(Path(path), read)]
                self._changed = True
        except OSError as error:
            raise PermafrostError(
                f"{error.filename or path} cannot be read ({error.strerror})",
                remedy="correct the path in the entry, or `data:` in the configuration",
            ) from error
        return known[-1]

    def once(self, subject: list, check: Callable[[], None]) -> None:
        """Call `check`, unless it passed before for this `subject`, a JSON value with digests."""
        key = f"checked {fingerprint(subject)}"
        if key not in self._known:
            check()
            self._known[key] = [0, 0, 0, 0, ""]
            self._changed = True

    def save(self) -> None:
        """Write the cache if something was added; failing to write it is not an error."""
        if not self._changed:
            return
        settled = time.time_ns() - _SETTLED_NS
        lasting = {key: known for key, known in self._known.items() if known[3] < settled}
        try:
            with whole_file(self.path, exclusive=False) as partial:
                # jobs add to it, too
                partial.write_text(json.dumps(self._load() | lasting))
        except (OSError, PermafrostError):
            return
        self._changed = False

    def _load(self) -> dict:
        try:
            known = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _state_of_file(path, _: Read | None) -> list:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(os.stat(path).st_mode):
        # opening a pipe would block
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file_state(path)
