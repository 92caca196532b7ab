"""Content digests of the files a plan depends on, remembered while a file's state stays the same."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.core.outputs import whole_file

# a file that changed just now may change again without its time stamp moving on
_SETTLED_NS = 2_000_000_000


class DigestCache:
    """SHA-256 of files; a file whose state did not change since the last run is not read again.

    The state is size, inode and both times of change. The time of the inode's change counts because
    it cannot be set: a file put in another's place with the same size and date is noticed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, list] = self._load()
        self._changed = False

    def digest(self, file) -> str:
        """SHA-256 of the content of `file`."""
        try:
            status = os.stat(file)
            state = [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
            key = os.path.abspath(file)
            known = self._known.get(key)
            if known is None or known[:-1] != state:
                self._known[key] = known = [*state, file_digest(file)]
                self._changed = True
        except OSError as error:
            raise PermafrostError(
                f"the file {file} cannot be read ({error.strerror})",
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
