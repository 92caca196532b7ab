"""Embeddings in Parquet and CSV tables: the row with an image's name, or with the nearest centre."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from scipy.spatial import cKDTree

from permafrost.core.errors import PermafrostError, first_line, look_up
from permafrost.core.options import Above0, LeftOut, Options, Some, Text
from permafrost.core.parquet_files import check_expansion
from permafrost.data.embeddings.csv_rows import ENDING as CSV
from permafrost.data.embeddings.csv_rows import CsvRows
from permafrost.data.embeddings.files import find_files
from permafrost.data.embeddings.places import DEGREES, Place, ordinal, unit_vectors
from permafrost.data.files.georeference import check_crs

EARTH_RADIUS_M = 6_371_008.8
#: distances that differ by less than this count as equal
SAME_M = 0.001
_WHOLE = re.compile("[0-9]+")
# an ending begins with a letter, so that the last number of tile_10.5 stays
_ENDING = re.compile(r"(?<=.)(\.zarr)?\.[A-Za-z][A-Za-z0-9]{0,7}$")


def stem(name: str) -> str:
    """The file name without folder and ending: ``part-0/a.zarr.zip`` and ``a.tif`` are both ``a``."""
    return _ENDING.sub("", name.rpartition("/")[2])


@dataclass(frozen=True, kw_only=True)
class TableOptions(Options):
    """Parquet, GeoParquet or CSV files with one embedding per row."""

    pattern: Text = "*.parquet"
    """Pattern of the file names in the folder."""
    embedding: Text | Some[Text]
    """Column of lists, prefix of columns (emb_*), or names of columns. Or *: the columns whose names are whole
    numbers, in this order; without such columns, all that do not serve to find rows."""
    by: Literal["id", "stem", "nearest"]
    """Selects the row with the sample's name, the one with its file name without folder and ending, or the one
    with the nearest centre."""
    id: LeftOut[Text] = None
    """Column of names."""
    within_m: LeftOut[Above0] = None
    """Largest distance between centres in metres."""
    lon: LeftOut[Text] = None
    """Column of longitudes in degrees."""
    lat: LeftOut[Text] = None
    """Column of latitudes in degrees."""
    geometry: LeftOut[Text] = None
    """Column of well-known binary, whose centroid is used."""
    date: LeftOut[Text] = None
    """Column of dates. Only rows of the image's year are used; among equally near ones, the nearest day."""


@dataclass(frozen=True)
class Found:
    """The row of a place and its distance in metres (None by id), or why there is none."""

    row: int | None
    distance_m: float | None = None
    reason: str = ""


class TableEmbeddings:
    """Rows of one or more Parquet or CSV files; only the columns used to find rows are in memory.

    Parameters
    ----------
    path : file or folder.
    where : name of the backbone, for errors.
    """

    def __init__(self, path: str, options: TableOptions, where: str) -> None:
        self._options, self._where = options, where
        _check(options, where)
        self._files: list[Path] = [
            one for _, one, _ in find_files(path, options.pattern, f"{where}: path")
        ]
        self._ends: list[int] = []
        self._texts: dict[Path, CsvRows] = {}
        keys = [self._keys(file) for file in self._files]
        self._ends = np.cumsum([len(part) for part in keys]).tolist()
        self._table = pa.concat_tables(keys)
        self._days = self._dates() if options.date else None
        self._groups: dict[int | None, tuple] = {}
        self._rows_of: dict[str, list[int]] = {}
        self._called: dict[str, str] = {}
        if options.by != "nearest":
            by_stem = options.by == "stem"
            for row, name in enumerate(self._table[options.id].cast(pa.string()).to_pylist()):
                key = stem(name) if by_stem and name is not None else name
                self._rows_of.setdefault(key, []).append(row)
        else:
            self._points = self._centres()

    def describe(self) -> dict:
        return {"tables": len(self._files), "rows": len(self._table)}

    def find(self, place: Place) -> Found:
        """The row of a place.

        Raises
        ------
        PermafrostError : several rows match equally well, or two samples one row.
        """
        if self._days is not None and place.year is None:
            return Found(None, reason="its year is not known")
        if self._options.by != "nearest":
            rows = np.array(self._rows_of.get(self._name(place.sample_id), []), int)
            if not len(rows):
                return Found(None, reason="no row has its name")
            if self._days is not None:
                rows = rows[self._years[rows] == place.year]
                if not len(rows):
                    return Found(None, reason=f"no row of its name is of {place.year}")
            return Found(self._one(rows, place))
        return self._nearest(place)

    def read(self, rows: Sequence[int]) -> np.ndarray:
        """(n, K) float32: the embeddings of these rows; raises `PermafrostError` if their lengths differ."""
        rows = np.asarray(rows, int)
        values, width = [None] * len(rows), None
        files = np.searchsorted(self._ends, rows, side="right")
        for number in np.unique(files):
            here = np.flatnonzero(files == number)
            start = self._ends[number - 1] if number else 0
            for place, vector in zip(here, self._vectors(number, rows[here] - start), strict=True):
                values[place] = vector
                width = len(vector) if width is None else width
                if len(vector) != width:
                    raise PermafrostError(
                        f"embeddings have {width} numbers and {len(vector)}",
                        where=self._files[number],
                        remedy="let `pattern` name the tables of one kind of embeddings",
                    )
        return np.array(values, np.float32).reshape(len(rows), -1)

    # --- which row -----------------------------------------------------------------------------

    def _name(self, sample_id: str) -> str:
        """The name that the sample's row has."""
        if self._options.by == "id":
            return sample_id
        name = stem(sample_id)
        first = self._called.setdefault(name, sample_id)
        if first != sample_id:
            raise PermafrostError(
                f"the samples {first!r} and {sample_id!r} are both called {name!r} in the tables",
                where=self._where,
                remedy="write the samples' names into the tables, and use `by: id`",
            )
        return name

    def _nearest(self, place: Place) -> Found:
        group = place.year if self._days is not None else None
        if group not in self._groups:
            self._groups[group] = self._tree(group)
        tree, members = self._groups[group]
        of_year = f" of {group}" if group is not None else ""
        limit = f"{self._options.within_m:g} m"
        if tree is None:
            return Found(None, reason=f"no row is{of_year}")
        point = unit_vectors(np.array([place.lon]), np.array([place.lat]))[0]
        chord, _ = tree.query(point)
        distance = float(arc_m(chord))
        if distance > self._options.within_m:
            return Found(
                None, distance, f"the nearest row{of_year} is {distance:,.0f} m away, over {limit}"
            )
        equal = tree.query_ball_point(point, chord_of(distance + SAME_M))
        return Found(self._one(members[sorted(equal)], place), distance)

    def _one(self, rows: np.ndarray, place: Place) -> int:
        """The only row, or the one whose day is nearest."""
        day = place.ordinal()
        if len(rows) > 1 and self._days is not None and day is not None:
            apart = np.abs(self._days[rows] - day)
            rows = rows[apart == apart.min()]
        if len(rows) > 1:
            shown = ", ".join(str(row + 1) for row in rows[:5])
            raise PermafrostError(
                f"{len(rows)} rows match sample {place.sample_id!r} equally well (rows {shown} of all files)",
                where=self._where,
                remedy="leave one of them in the tables, or name the column `date` if it distinguishes them",
            )
        return int(rows[0])

    def _tree(self, year: int | None) -> tuple:
        usable = np.isfinite(self._points).all(axis=1)
        if year is not None:
            usable &= self._years == year
        members = np.flatnonzero(usable)
        return (cKDTree(self._points[members]) if len(members) else None), members

    # --- columns -------------------------------------------------------------------------------

    def _keys(self, file: Path) -> pa.Table:
        options = self._options
        wanted = self._key_columns()
        try:
            if file.suffix.lower() == CSV:
                self._texts[file] = CsvRows(file)
            text = self._texts.get(file)
            schema = pq.read_schema(file) if text is None else text.schema
            for name in wanted:
                look_up(
                    schema.names,
                    name,
                    "there is no column",
                    where=file,
                    remedy="correct the names of columns in the entry",
                )
            if options.geometry:
                _check_degrees(schema, options.geometry, file)
            if text is not None:
                numbers = dict.fromkeys((options.lon, options.lat), pa.float64())
                return text.keys({name: numbers.get(name, pa.string()) for name in wanted})
            check_expansion(file, wanted)
            return pq.read_table(file, columns=wanted)
        except PermafrostError:
            raise
        except Exception as error:  # a damaged file raises errors of any type
            raise _unreadable(file, error) from error

    def _key_columns(self) -> list[str]:
        options = self._options
        names = (options.id, options.lon, options.lat, options.geometry, options.date)
        return [name for name in names if name is not None]

    def _centres(self) -> np.ndarray:
        """(N, 3) on the unit sphere; NaN for rows without a location."""
        options = self._options
        if options.geometry is None:
            lon, lat = (
                self._table[name].cast(pa.float64()).to_numpy()
                for name in (options.lon, options.lat)
            )
            return unit_vectors(lon, lat)

        column = self._table[options.geometry].to_numpy()
        try:
            shapes = shapely.from_wkb(column)
        except (shapely.errors.ShapelyError, TypeError) as error:
            raise PermafrostError(
                f"the column {options.geometry!r} holds no well-known binary ({first_line(error)})",
                where=self._where,
                remedy="name the columns `lon` and `lat` instead",
            ) from error
        centres = shapely.centroid(shapes)
        return unit_vectors(shapely.get_x(centres), shapely.get_y(centres))

    def _dates(self) -> np.ndarray:
        column = self._table[self._options.date]
        if not pa.types.is_string(column.type):
            column = column.cast(pa.timestamp("us"), safe=False).cast(pa.date32()).cast(pa.string())
        days = [ordinal(text) for text in column.to_pylist()]
        if None in days:
            raise PermafrostError(
                f"{days.count(None)} rows have no date as YYYY-MM-DD in {self._options.date!r}",
                where=self._where,
                remedy="leave `date` out, or name another column",
            )

        self._years = np.array([date.fromordinal(day).year for day in days], int)
        return np.array(days, int)

    def _vectors(self, number: int, rows: np.ndarray) -> list[np.ndarray]:
        """Embeddings of rows of one file; reads only the row groups that hold them."""
        file = self._files[number]
        try:
            if file in self._texts:
                text = self._texts[file]
                return list(text.read(rows, self._embedding_columns(text.schema, file)))
            source = pq.ParquetFile(file)
            names = self._embedding_columns(source.schema_arrow, file)
            groups = [
                source.metadata.row_group(group).num_rows
                for group in range(source.metadata.num_row_groups)
            ]
            ends = np.cumsum(groups)
            of_row = np.searchsorted(ends, rows, side="right")
            values: list = [None] * len(rows)
            for group in np.unique(of_row):
                here = np.flatnonzero(of_row == group)
                start = ends[group] - groups[group]
                check_expansion(file, names, int(group))
                read = source.read_row_group(int(group), columns=names)
                taken = read.take(rows[here] - start)
                for place, vector in zip(here, _matrix(taken, names), strict=True):
                    values[place] = np.asarray(vector, np.float32)
            return values
        except PermafrostError:
            raise
        except Exception as error:
            raise _unreadable(file, error) from error

    def _embedding_columns(self, schema: pa.Schema, file: Path) -> list[str]:
        wanted, known = self._options.embedding, schema.names
        names = list(wanted) if isinstance(wanted, list) else [wanted]
        if wanted == "*":
            keys = self._key_columns()
            names = sorted(filter(_WHOLE.fullmatch, known), key=int)
            names = names or [name for name in known if name not in keys]
        elif isinstance(wanted, str) and wanted.endswith("*"):
            names = [name for name in known if name.startswith(wanted[:-1])]
            names.sort(
                key=lambda name: [int(n) for n in re.findall(r"\d+", name[len(wanted) - 1 :])]
            )
        for name in names or [cast("str", wanted)]:
            remedy = "correct `table.embedding`"
            look_up(known, name, "there is no column of embeddings", where=file, remedy=remedy)
        return names


def _matrix(table: pa.Table, names: list[str]) -> list:
    if len(names) > 1:
        return list(np.stack([table[name].cast(pa.float32()).to_numpy() for name in names], axis=1))
    return [value if isinstance(value, list) else [value] for value in table[names[0]].to_pylist()]


def _check(options: TableOptions, where: str) -> None:
    """Refuse options that do not define how a row is found, or define it twice."""
    by_id = options.by != "nearest"
    places = [options.lon, options.lat, options.geometry]
    problem = None
    if by_id and options.id is None:
        problem = f"by: {options.by} needs the name of the column, `id`"
    elif by_id and (options.within_m is not None or any(places)):
        problem = f"by: {options.by} uses neither within_m nor lon, lat and geometry"
    elif not by_id and options.within_m is None:
        problem = "by: nearest needs `within_m`, the largest distance in metres"
    elif not by_id and options.id is not None:
        problem = "by: nearest does not use `id`"
    elif not by_id and [one is not None for one in places] not in (
        [True, True, False],
        [False, False, True],
    ):
        problem = "by: nearest needs the columns `lon` and `lat`, or `geometry`"
    if problem is not None:
        raise PermafrostError(problem, where=f"{where}: table", remedy="see docs/backbones.md")


def _check_degrees(schema: pa.Schema, column: str, file: Path) -> None:
    """Raise `PermafrostError` if a GeoParquet geometry is not in degrees."""
    about = json.loads((schema.metadata or {}).get(b"geo", b"{}"))
    crs = about.get("columns", {}).get(column, {}).get("crs")
    if crs is None:
        return
    from rasterio.crs import CRS

    check_crs(crs)
    known = CRS.from_user_input(json.dumps(crs) if isinstance(crs, dict) else crs)
    if not known.is_geographic:
        raise PermafrostError(
            f"the column {column!r} is in {known.to_string()}, not in degrees",
            where=file,
            remedy=f"write the table in {DEGREES}, or add columns of lon and lat",
        )


def _unreadable(file: Path, error: Exception) -> PermafrostError:
    return PermafrostError(
        f"the table cannot be read ({first_line(error)})",
        where=file,
        remedy="get the file again, or correct the entry's columns",
    )


def arc_m(chord):
    """Arc length in metres between points whose unit vectors are `chord` apart."""
    return 2 * EARTH_RADIUS_M * np.arcsin(np.minimum(np.asarray(chord) / 2, 1.0))


def chord_of(metres: float) -> float:
    return 2 * np.sin(min(metres / EARTH_RADIUS_M, np.pi) / 2)
