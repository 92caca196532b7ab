"""Samples of tortilla files as rows: the files, and the columns of each sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.tortilla import Extent, Item, read_items
from permafrost.data.records import Record

#: names of splits in files -> our names
_SPLITS = {"validation": "val"}
_PART_FILE = re.compile(r"(.+)\.\d+\.part\.(\w+)")


def all_samples(path: str, files: Sequence[str] | None, *, where: object) -> list[Item]:
    """The samples of a file, or of the files in a folder, in their order.

    Raises
    ------
    PermafrostError : a file is missing or not a tortilla file, or another file of the series is not
        listed.
    """
    return [sample for file in _files(Path(path), files, where) for sample in _samples(file, where)]


def _files(place: Path, files: Sequence[str] | None, where: object) -> list[Path]:
    """The files to read; raises `PermafrostError` if one is missing, or a file of the series is not listed."""
    if place.is_file() and not files:
        return [place]
    if not place.is_dir() or not files:
        raise PermafrostError(
            f"{place} is not a folder with the files {', '.join(files)}"
            if files
            else f"{place} is not a file",
            where=where,
            remedy="correct path: a file, or a folder with the names of its files under files",
        )
    missing = [name for name in files if not (place / name).is_file()]
    if missing:
        raise PermafrostError(
            f"{place} lacks {', '.join(missing)}",
            where=where,
            remedy="get the missing files; or list the existing ones under files of your own entry,"
            " which then covers only their samples",
        )
    series = {match.groups() for name in files if (match := _PART_FILE.fullmatch(name))}
    strangers = [
        path.name
        for path in sorted(place.iterdir())
        if path.name not in files
        and (match := _PART_FILE.fullmatch(path.name))
        and match.groups() in series
    ]
    if strangers:
        raise PermafrostError(
            f"{place} also holds {', '.join(strangers)}, which files does not list",
            where=where,
            remedy="list all parts of the dataset under files",
        )
    return [place / name for name in files]


def _samples(path: Path, where: object) -> list[Item]:
    try:
        return read_items(Extent.whole(path))
    except UnreadableImage as failure:
        raise PermafrostError(
            f"{path} {failure}", where=where, remedy=failure.remedy or "get the file again"
        ) from failure


def cell_of(sample: Item, column: str, where: object):
    """A sample's value of a column; raises `PermafrostError` if the column is missing."""
    if column not in sample.columns:
        shown = ", ".join(sorted(sample.columns))
        raise PermafrostError(
            f"{sample.extent.path} has no column {column!r}, only {shown}",
            where=where,
            remedy="name an existing column",
        )
    return sample.columns[column]


def record_of(sample: Item, label, group: str | None, where: object) -> Record:
    """The record of a sample; `group` is the column of the group."""
    lon, lat = _place(sample.columns)
    belongs = None if group is None else cell_of(sample, group, where)
    return Record(
        sample_id=sample.name,
        label=label,
        split=_SPLITS.get(sample.split, sample.split),
        group_id=None if belongs is None else str(belongs),
        lon=lon,
        lat=lat,
        date=sample.date,
    )


def _place(columns: dict) -> tuple[float | None, float | None]:
    """lon, lat from their columns, else from the centre; images without georeference have pixel coordinates there."""
    if "lon" in columns and "lat" in columns:
        lon, lat = columns["lon"], columns["lat"]
        return (None, None) if None in (lon, lat) or lon != lon or lat != lat else (lon, lat)
    centre = re.fullmatch(r"POINT \((\S+) (\S+)\)", columns.get("stac:centroid") or "")
    if not centre:
        return None, None
    lon, lat = map(float, centre.groups())
    return (lon, lat) if abs(lon) <= 180 and abs(lat) <= 90 else (None, None)
