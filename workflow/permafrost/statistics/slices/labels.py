"""Slices of a test set: by place, by date, by group, by fold, by distance, or by a column of somebody's
table.

A way to slice is a text: ``group``, ``fold``, ``distance``, ``latitude`` (bands of 15 degrees; ``latitude:30``),
``cell`` (10 degrees in both directions; ``cell:5``, ``cell:500km``), ``season``, ``month``, ``year``, or
``FILE:COLUMN``, a CSV or parquet file with ``sample_id`` or ``group_id`` and a column of values.

Seasons are meteorological, three whole months each: winter is December to February north of the
equator and June to August south of it. Distances are those to the nearest train image, in powers of ten kilometres.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.data.labels.regions import band, season, year_month
from permafrost.data.sources.table_files import PARQUET
from permafrost.data.user_tables import values_of
from permafrost.statistics.slices.distance import DISTANCE

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(km)?")
# length of a degree of latitude on a sphere of 6371 km
_KM_PER_DEGREE = math.pi * 6371.0 / 180
_FILES = (".csv", *PARQUET)

# intervals of more take minutes
_MOST = 1000

Key = tuple  # its first entries sort the slices, its last one is their name


@dataclass(frozen=True)
class Labels:
    """The slice of each sample.

    Attributes
    ----------
    names : of the S slices, in their natural order.
    codes : (N,) slice of each sample, -1 if it is not known.
    """

    names: list[str]
    codes: np.ndarray

    @classmethod
    def of(cls, keys: Sequence[Key | None]) -> Labels:
        """From one key per sample, None if it is not known."""
        found = sorted({key for key in keys if key is not None})
        place = {key: number for number, key in enumerate(found)}
        codes = [-1 if key is None else place[key] for key in keys]
        return cls([str(key[-1]) for key in found], np.array(codes, np.int64))


@dataclass(frozen=True)
class Slicing:
    """A way to slice.

    Attributes
    ----------
    name : the text that asks for it.
    needs : columns of the samples that it reads.
    keys : from these columns, lists of N values, to N keys.
    of_groups : whether a slice is one group or fold, so that its images are its units.
    of_table : whether it reads a column of somebody's table.
    """

    name: str
    needs: tuple[str, ...]
    keys: Callable[..., list[Key | None]] = field(repr=False)
    of_groups: bool = False
    of_table: bool = False

    def labels(self, samples: pa.Table) -> Labels:
        """The slices of samples with the columns `needs`.

        Raises
        ------
        PermafrostError : no sample has what it needs, or there are more than 1000 slices.
        """
        columns = [samples[name].to_pylist() for name in self.needs]
        found = Labels.of(self.keys(*columns))
        if not found.names:
            what = _WORDS.get(self.needs, "a value")
            remedy = "slice by something else, or by a column of your own table: FILE:COLUMN"
            called = next((name for name in columns[0] if name is not None), None)
            if self.of_table and called is not None:
                what = "a value"
                remedy = f"write {self.needs[0]} as it is in this dataset, for example {called!r}"
            raise PermafrostError(
                f"no test sample has {what} that is known",
                where=f"slices by {self.name}",
                remedy=remedy,
            )
        if len(found.names) > _MOST:
            by_steps = self.name.partition(":")[0] in _SIZED
            raise PermafrostError(
                f"there are {len(found.names)} slices, and at most {_MOST} are possible",
                where=f"slices by {self.name}",
                remedy="use larger steps"
                if by_steps
                else "put the numbers into classes"
                if self.of_table
                else "slice by a column of your own table that has fewer values: FILE:COLUMN",
            )
        return found


def slicing(by: str) -> Slicing:
    """The way to slice that a text asks for; see the module.

    Raises
    ------
    PermafrostError : an unknown name, a size that is not positive, or a file that cannot be used.
    """
    path, _, column = by.rpartition(":")
    for file, name in ((path, column), (by, "")):
        if file.lower().endswith(_FILES):
            return _of_table(by, Path(file), name)
    name, _, size = by.partition(":")
    known = look_up(
        _NAMED, name, "there is no way to slice by", where="slices",
        remedy=f"name one of {', '.join(_NAMED)}, or FILE:COLUMN of a .csv or .parquet file",
    )  # fmt: skip
    if name not in _SIZED:
        if size:
            raise PermafrostError(
                f"slices by {name} have no size", where=by, remedy=f"leave out :{size}"
            )
        return Slicing(by, *known)
    needs, keys = known
    degrees, kilometres = _size(by, size or _SIZED[name], name == "cell")
    return Slicing(by, needs, lambda *columns: keys(*columns, degrees, kilometres))


def _size(by: str, text: str, in_km: bool) -> tuple[float, bool]:
    found = _SIZE.fullmatch(text)
    if not found or not float(found[1]) or (found[2] and not in_km):
        raise PermafrostError(
            f"the size {text!r} is not a positive number of degrees{' or km' if in_km else ''}",
            where=by,
            remedy="write for example cell:5 or cell:500km" if in_km else "write latitude:30",
        )
    size = float(found[1])
    return (size / _KM_PER_DEGREE, True) if found[2] else (size, False)


def _of_group(groups) -> list[Key | None]:
    return [None if group is None else (str(group),) for group in groups]


def _known(value, most: float) -> bool:
    return value is not None and abs(value) <= most  # NaN is not


def _by_latitude(lat, degrees: float, _: bool) -> list[Key | None]:
    return [band(one, degrees) if _known(one, 90) else None for one in lat]


def _by_cell(lon, lat, degrees: float, kilometres: bool) -> list[Key | None]:
    """Cells between circles of latitude; with `kilometres` about as wide as high anywhere."""
    found: list[Key | None] = []
    for one, other in zip(lon, lat, strict=True):
        if not (_known(one, 180) and _known(other, 90)):
            found.append(None)
            continue
        row, rows = band(other, degrees)
        width = degrees
        if kilometres:
            middle = math.radians(min(abs(row + 0.5) * degrees, 90))
            width = 180 / max(1, round(180 * math.cos(middle) / degrees))
        column, columns = band(-180.0 if one == 180 else one, width, 180, "EW")
        found.append((row, column, f"{rows}, {columns}"))
    return found


def _by_year(dates) -> list[Key | None]:
    found = map(year_month, dates)
    return [None if one is None else (one[0],) for one in found]


def _months(dates) -> list[int | None]:
    return [None if one is None else one[1] for one in map(year_month, dates)]


def _by_month(dates) -> list[Key | None]:
    return [None if one is None else (one, _MONTHS[one - 1]) for one in _months(dates)]


def _by_season(lat, dates) -> list[Key | None]:
    found: list[Key | None] = []
    for one, month in zip(lat, _months(dates), strict=True):
        if month is None or not _known(one, 90):
            found.append(None)
            continue
        found.append(season(month, one))
    return found


def _by_distance(kilometres) -> list[Key | None]:
    """Powers of ten, from 0.1 to 1000 km."""
    edges = (0.1, 1, 10, 100, 1000)
    names = ["below 0.1 km", *(f"{a:g} to {b:g} km" for a, b in itertools.pairwise(edges))]
    names.append("1000 km and more")
    places = [
        None if one is None or not one >= 0 else bisect.bisect_right(edges, one)
        for one in kilometres
    ]
    return [None if place is None else (place, names[place]) for place in places]


# name to the columns that it needs, its keys, and whether a slice is one group
_NAMED: dict[str, tuple] = {
    "group": (("group_id",), _of_group, True),
    "fold": (("fold",), _of_group, True),
    "distance": ((DISTANCE,), _by_distance),
    "latitude": (("lat",), _by_latitude),
    "cell": (("lon", "lat"), _by_cell),
    "season": (("lat", "date"), _by_season),
    "month": (("date",), _by_month),
    "year": (("date",), _by_year),
}
_SIZED = {"latitude": "15", "cell": "10"}
_WORDS = {
    ("group_id",): "a group",
    ("fold",): "a fold",
    (DISTANCE,): "a distance to a train image",
    ("lat",): "a latitude",
    ("lon", "lat"): "a longitude and latitude",
    ("lat", "date"): "a latitude and a date with its month",
    ("date",): "a date",
}


def _of_table(by: str, path: Path, column: str) -> Slicing:
    """By a column of a file with ``sample_id`` or ``group_id``; its only other one if unnamed."""
    key, values = values_of(path, column)
    order = _ordering(values.values())

    def keys(names) -> list[Key | None]:
        given = [None if name is None else values.get(str(name)) for name in names]
        return [None if value is None else (order(value), value) for value in given]

    return Slicing(by, (key,), keys, of_table=True)


def _ordering(values) -> Callable[[str], float | str]:
    """Numbers are sorted as numbers, if all values are."""
    try:
        numbers = all(math.isfinite(float(value)) for value in values)
    except ValueError:
        numbers = False
    return float if numbers else str
