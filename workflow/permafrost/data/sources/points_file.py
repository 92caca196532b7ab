"""One table of points in an image: a CSV with a column for x, for y and perhaps for the class."""

from __future__ import annotations

import csv
import io
import math

import numpy as np

from permafrost.core.errors import near_names
from permafrost.data.decode import UnreadableImage


def parse_points(
    data: bytes, *, x: str, y: str, label: str | None = None
) -> tuple[np.ndarray, list[str]]:
    """Points (N, 2) x, y as they stand in the table, and N labels, empty without a column of them.

    Parameters
    ----------
    x, y, label : names of columns.

    Raises
    ------
    UnreadableImage : it is no such table; one with only a header line holds no points.
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
        points.append([_number(row[places[name]], f"line {line}", name) for name in (x, y)])
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


def _number(text: str, which: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UnreadableImage(f"{which} has {text[:40]!r} in {name}, which is no number")
    return value
