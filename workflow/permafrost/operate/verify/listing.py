"""All files below a results folder, and which of them an output accounts for."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from permafrost.core.inventory import files_below
from permafrost.core.outputs import PARTIAL
from permafrost.report.archive.contents import TIMESTAMP


class Listing:
    """Files below a folder.

    Attributes
    ----------
    sizes : path relative to the folder -> size in bytes; -1: no regular file.
    left : paths that nothing accounted for so far.
    """

    def __init__(self, results: Path) -> None:
        self.results = results
        self.sizes = dict(files_below(results))
        self._sorted = sorted(self.sizes)
        self.left = {
            name
            for name in self._sorted
            # Snakemake's marks are empty, and what a killed run left is never read
            if not (name.endswith(f"/{TIMESTAMP}") and not self.sizes[name])
        }

    def take(self, name: str) -> int | None:
        """Account for a file; returns its size, or None if it is missing."""
        self.left.discard(name)
        return self.sizes.get(name)

    def take_below(self, folder: str) -> dict[str, int]:
        """Account for all files below `folder`; returns paths relative to it, with sizes."""
        # "0" follows "/" in the order of characters
        first, last = (bisect_left(self._sorted, folder + end) for end in "/0")
        names = self._sorted[first:last]
        found = {name[len(folder) + 1 :]: self.sizes[name] for name in names if name in self.left}
        self.left.difference_update(names)
        return found

    def is_leftover(self, name: str) -> bool:
        """Whether a killed run left the file."""
        return any(part.startswith(".") and PARTIAL in part for part in name.split("/"))
