"""Names of samples without folder and ending, by which tables of other projects name images."""

from __future__ import annotations

import re

# an ending begins with a letter, so that the last number of tile_10.5 stays
_ENDING = re.compile(r"(?<=.)(\.zarr)?\.[A-Za-z][A-Za-z0-9]{0,7}$")


def stem(name: str) -> str:
    """The file name without folder and ending: ``part-0/a.zarr.zip`` and ``a.tif`` are both ``a``."""
    return _ENDING.sub("", name.rpartition("/")[2])
