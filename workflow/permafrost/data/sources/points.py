"""Kind ``points``: images with one CSV of points each."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.options import LeftOut, Text
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import point_places
from permafrost.data.sources.options import Corners, PairedObjects
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import finite_number, read_member

POINTS = Companions("points", "table of points", ("csv",))


@dataclass(frozen=True, kw_only=True)
class PointsOptions(PairedObjects):
    """A CSV of points per image."""

    images: Text = "images"
    """Location of the images, as for voc."""
    points: Text = "points"
    """Location of the tables, as in images."""
    x: Text = "x"
    """Column of x."""
    y: Text = "y"
    """Column of y, increasing downwards."""
    label: LeftOut[Text] = None
    """Column of the class. Without it, all points have the entry's only class."""
    coordinates: Corners = "edges"
    """Meaning of x and y, see corners of voc; pixel numbers mean pixel centres."""


def open_points(entry: DatasetEntry, *, where: object) -> ObjectSource:
    """Open a source of images with points in a CSV of the same name."""
    options: PointsOptions = entry.source
    members = open_members(options.path, where=where)
    optional = options.missing == "empty"
    pairs = pair_files(members, options, POINTS, optional=optional, where=where)
    only = None if options.label else entry.classes[0]
    images = [_annotated(members, pair, options, only) for pair in pairs]
    return ObjectSource(entry, members, images, where=where)


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for points without a class: neither a column nor a single class in the entry."""
    if entry.source.label is None and len(entry.classes or []) != 1:
        raise PermafrostError(
            "the tables name no classes, so the entry has to list the one class of all points",
            where=where,
            remedy="list one class, e.g. classes: [tree], or name the column of classes with label",
        )


def _annotated(members: Members, pair: Pair, options: PointsOptions, only: str | None) -> Annotated:
    split, name = pair.parts.get("split"), pair.companion
    if name is None:
        return Annotated(pair.image, [], split=split)
    try:
        points, labels = parse_points(
            read_member(members, name), x=options.x, y=options.y, label=options.label
        )
    except UnreadableImage as failure:
        return Annotated(pair.image, [], split=split, problems=[f"{name}: {failure}"])
    places = point_places(points, options.coordinates).tolist()
    found = [
        Found(label, [x, y, x, y], f"{name}: point {number}")
        for number, ((x, y), label) in enumerate(
            zip(places, labels or [only] * len(places), strict=True), start=1
        )
    ]
    return Annotated(pair.image, found, split=split)


def parse_points(
    data: bytes, *, x: str, y: str, label: str | None = None
) -> tuple[np.ndarray, list[str]]:
    """Points (N, 2) x, y of a table, and N labels; no labels without a column of them.

    Parameters
    ----------
    x, y, label : names of columns.

    Raises
    ------
    UnreadableImage : it is not such a table; one with only a header line is valid and has no
        points.
    """
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = next(reader, [])
        rows = [(reader.line_num, row) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableImage(f"is no CSV in UTF-8 ({error})") from error
    places = {name: _place(header, name) for name in (x, y, label) if name is not None}
    points, labels = [], []
    for line, row in rows:
        if len(row) != len(header):
            raise UnreadableImage(f"line {line} has {len(row)} cells, the header {len(header)}")
        points.append([finite_number(row[places[n]], f"line {line}", f"in {n}") for n in (x, y)])
        if label is not None:
            labels.append(row[places[label]].strip())
            if not labels[-1]:
                raise UnreadableImage(f"line {line} has nothing in {label}")
    return np.array(points, np.float64).reshape(-1, 2), labels


def _place(header: list[str], name: str) -> int:
    if not header:
        raise UnreadableImage("is empty, without even a header line")
    if header.count(name) != 1:
        problem = "two columns" if name in header else "no column"
        raise UnreadableImage(f"has {problem} {name!r}; {near_names(name, header)}")
    return header.index(name)
