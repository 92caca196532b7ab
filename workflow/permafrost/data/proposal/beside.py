"""An archive of images together with the files next to it, such as their annotations."""

from __future__ import annotations

from typing import IO

from permafrost.data.digest import INSIDE
from permafrost.data.files.members import Members

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class Beside:
    """Members of an archive, followed by those of its folder.

    Parameters
    ----------
    inner : members of the archive, whose path stands for both. outer : members of the folder.
    """

    def __init__(self, inner: Members, outer: Members) -> None:
        self._inner, self._outer = inner, outer
        self.place = inner.place
        self._outside = {name for name in outer.names if name not in inner.names}
        self.names = [*inner.names, *sorted(self._outside)]

    def place_of(self, place: str) -> str:
        """Path of a file that a draft names as one inside the archive."""
        name = place.removeprefix(INSIDE).removeprefix(f"{self.place}/")
        return str(self._outer.place / name) if name in self._outside else place

    def read(self, name: str) -> bytes:
        return self._of(name).read(name)

    def size(self, name: str) -> int:
        return self._of(name).size(name)

    def open(self, name: str) -> IO[bytes]:
        return self._of(name).open(name)

    def location(self, name: str) -> str:
        return self._of(name).location(name)

    def verify(self, name: str) -> None:
        self._of(name).verify(name)

    def _of(self, name: str) -> Members:
        return self._outer if name in self._outside else self._inner
