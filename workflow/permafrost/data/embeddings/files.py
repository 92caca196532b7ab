"""Files of embeddings: those in a folder that match a pattern, with their years."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.files.folders import Read, folder_files

YEAR = "{year}"
#: of the names of mosaics
ENDING = ".vrt"


def read_of_pattern(pattern: str, *further: str) -> Read:
    """Which files of a folder an entry reads, for its identity."""
    return Read(hidden=False, patterns=tuple(_plain(one) for one in (pattern, *further)))


def read_of_options(options: dict, located: Callable[[str], Path] = Path) -> Read:
    """Which files below ``path`` the options of ``rasters`` or ``table`` read, with the tiles of mosaics.

    Parameters
    ----------
    located : path as written in the options -> actual path.

    Raises
    ------
    PermafrostError : a mosaic is refused.
    """
    how = options.get("rasters") or options.get("table") or {}
    scales, pattern = how.get("scales"), how.get("pattern", "*")
    read = read_of_pattern(pattern, *([f"*{scales}.*"] if scales else []))
    tail = pattern.rpartition("*")[2].lower()
    mosaics = options.get("rasters") and (tail.endswith(ENDING) or ENDING.endswith(tail))
    return _with_tiles(read, located(options["path"])) if mosaics else read


def is_mosaic(path: str | os.PathLike) -> bool:
    return os.fspath(path).lower().endswith(ENDING)


def _with_tiles(read: Read, place: Path) -> Read:
    from permafrost.data.embeddings.mosaics import tiles_of

    # a mosaic that is named alone is refused
    listed = [(place.name, str(place))] if place.is_file() else folder_files(place, read)
    tiles = [
        os.path.relpath(tile, place)
        for name, path in listed
        if is_mosaic(name)
        for tile in tiles_of(path, place)
    ]
    return Read(names=frozenset([*(name for name, _ in listed), *tiles])) if tiles else read


def find_files(path: str, pattern: str, where: str) -> list[tuple[str, Path, int | None]]:
    """(name, path, year) of a file, or of the files in a folder that match a pattern, sorted by name.

    In a pattern, ``*`` matches any characters including ``/``, and ``{year}`` four digits. The year
    is None if the pattern has no ``{year}``. A single file needs to match no pattern.

    Raises
    ------
    PermafrostError : `path` does not exist, no file matches, or a single file's year is asked for.
    """
    place = Path(path)
    if not place.exists():
        raise PermafrostError(
            f"{path} does not exist", where=where, remedy="correct the path, or get the data first"
        )
    expression = _expression(pattern)
    if not place.is_dir():
        if YEAR in pattern:
            raise PermafrostError(
                f"the pattern {pattern!r} uses the year, but {path} is a single file",
                where=where,
                remedy="let `path` be the folder, or leave {year} out",
            )
        return [(place.name, place, None)]
    listed = folder_files(place, Read(hidden=False))
    fitting = [(name, full, expression.fullmatch(name)) for name, full in listed]
    found = [(name, Path(full), _year(fit)) for name, full, fit in fitting if fit]
    if not found:
        raise PermafrostError(
            f"no file in {path} fits the pattern {pattern!r}",
            where=where,
            remedy="correct `path` or `pattern`",
        )
    return found


def _plain(pattern: str) -> str:
    return pattern.replace(YEAR, "*")


def _expression(pattern: str) -> re.Pattern:
    first, *rest = pattern.split(YEAR)
    text = re.escape(first).replace(r"\*", ".*")
    for number, part in enumerate(rest):
        text += r"(?P=year)" if number else r"(?P<year>\d{4})"
        text += re.escape(part).replace(r"\*", ".*")
    return re.compile(text)


def _year(fit: re.Match) -> int | None:
    return int(fit["year"]) if "year" in fit.re.groupindex else None
