"""Check files against the digests in the plan, before and after they are read."""

from __future__ import annotations

import os
from collections.abc import Callable

from permafrost.core.errors import PermafrostError, first_line


class Promised:
    """Files with an expected digest.

    The first check compares the digest. Later checks compare the state of the files (size, inode,
    times of change), and the digest only if the state has changed.

    Parameters
    ----------
    what : name in errors, e.g. ``the weights file net.pt``.
    expected : digest in the plan.
    digest : computes the digest; may raise `PermafrostError` or `OSError`.
    state : a value that changes whenever a file changes.
    where : place in errors.
    """

    def __init__(
        self,
        what: str,
        expected: str,
        digest: Callable[[], str],
        state: Callable[[], object],
        *,
        where: str,
    ) -> None:
        self._what, self._expected, self._where = what, expected, where
        self._digest, self._state = digest, state
        self._checked: object = None

    def check(self) -> None:
        """Raise `PermafrostError` if the files changed since the plan, or cannot be read."""
        try:
            state = self._state()
            if state == self._checked:
                return
            found = self._digest()
        except (OSError, PermafrostError) as error:
            raise PermafrostError(
                f"{self._what} cannot be read as it was planned ({first_line(error)})",
                where=self._where,
                remedy="restore it, or start snakemake again",
            ) from error
        if found != self._expected:
            raise PermafrostError(
                f"{self._what} changed since this run was planned",
                where=self._where,
                remedy="start snakemake again",
            )
        self._checked = state


def file_state(path) -> list[int]:
    """[size in bytes, inode, time of change of the content in ns, of the inode in ns]."""
    status = os.stat(path)
    return [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
