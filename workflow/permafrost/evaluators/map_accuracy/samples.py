"""Tables of reference points: CSV, parquet, data frames, GeoJSON, GeoPackage and other files of points."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line, look_up
from permafrost.core.extras import need
from permafrost.core.inputs import check_file
from permafrost.data.user_tables import columns_of

#: what a column may be; each is read from the column of its name unless another is named
ROLES = (
    "x",
    "y",
    "reference",
    "map",
    "against",
    "stratum",
    "weight",
    "inclusion_probability",
    "group",
)
_GEOJSON, _VECTOR = (".geojson", ".json"), (".gpkg", ".shp", ".fgb")
# RFC 7946
_LONGITUDE_LATITUDE = "OGC:CRS84"


@dataclass(frozen=True)
class Samples:
    """Reference points.

    Attributes
    ----------
    where : name of the source, for messages.
    columns : role -> (n,) texts, for the roles that the table has.
    row : (n,) number of each point in its source, from 1 after a header.
    crs : coordinate system of x and y; None if the source does not say.
    """

    where: str
    columns: dict[str, np.ndarray]
    row: np.ndarray
    crs: str | None = None

    def __len__(self) -> int:
        return len(self.row)

    def has(self, role: str) -> bool:
        return role in self.columns

    def take(self, kept: np.ndarray) -> Samples:
        """The points at `kept`, a mask or indices."""
        columns = {role: values[kept] for role, values in self.columns.items()}
        return replace(self, columns=columns, row=self.row[kept])

    def texts(self, role: str) -> np.ndarray:
        """(n,) texts of a role; refuses empty cells and a table without the column."""
        if role not in self.columns:
            raise PermafrostError(
                f"the samples have no column {role!r}",
                where=self.where,
                remedy=f"add it, or name the one that is meant: {role}=COLUMN (--columns)",
            )
        self.refuse(self.columns[role] == "", f"have no {role}", "complete or remove them")
        return self.columns[role]

    def numbers(self, role: str) -> np.ndarray:
        """(n,) finite numbers of a role."""
        texts = self.texts(role)
        values = np.array([_number(text) for text in texts])
        self.refuse(~np.isfinite(values), f"have a {role} that is not a number", "correct them")
        return values

    def refuse(self, wrong: np.ndarray, problem: str, remedy: str) -> None:
        """Raise PermafrostError if any point is `wrong` (n,) bool."""
        if wrong.any():
            raise PermafrostError(
                f"{np.count_nonzero(wrong)} of {len(self)} samples {problem} ({self.rows(wrong)})",
                where=self.where,
                remedy=remedy,
            )

    def rows(self, chosen: np.ndarray, most: int = 5) -> str:
        """The rows of the chosen points in words."""
        rows = self.row[chosen]
        more = f" and {len(rows) - most} more" if len(rows) > most else ""
        return f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:most]))}{more}"


def read_samples(
    source, *, columns: dict[str, str] | None = None, crs: str | None = None
) -> Samples:
    """Read a table of points.

    Parameters
    ----------
    source : a CSV or parquet file, GeoJSON, GeoPackage, Shapefile or FlatGeobuf with one layer of points, a data frame,
        or a mapping of columns.
    columns : role (`ROLES`) -> name of the column; a role that is left out has the column of its own name, if any.
    crs : coordinate system of x and y, for a table that does not say.

    Raises
    ------
    PermafrostError : cannot be read; holds no point, or shapes that are not points; lacks a named column; `crs`
        contradicts the file.
    """
    columns = columns or {}
    for role in columns:
        look_up(ROLES, role, "samples have no column for", where="columns")
    if isinstance(source, (str, Path)):
        where, (table, own, first) = str(source), _read(Path(source))
    else:
        where, own, first = "samples", None, 0
        table = {str(name): [_cell(value) for value in source[name]] for name in source}
    for role, name in columns.items():
        look_up(table, name, f"the samples have no column for {role} named", where=where)
    if own and crs and not _same_crs(own, crs):
        raise PermafrostError(
            f"the file says {own}, the option {crs}", where=where, remedy="leave the option out"
        )
    named = {role: columns.get(role, role) for role in ROLES}
    found = {
        role: np.array([text or "" for text in table[name]], object)
        for role, name in named.items()
        if name in table
    }
    lengths = {name: len(values) for name, values in table.items()}
    count = max(lengths.values(), default=0)
    if len(set(lengths.values())) > 1:
        raise PermafrostError(
            f"the columns have different lengths: {', '.join(f'{k} {n}' for k, n in lengths.items())}",
            where=where,
            remedy="give each column a value per point",
        )
    if not count:
        raise PermafrostError("there is no sample", where=where, remedy="give at least one row")
    return Samples(where, found, np.arange(first, first + count), own or crs)


def label_text(text: str) -> str:
    """A class as text: whole numbers without a fraction, as tables write 3 and 3.0."""
    text = text.strip()
    number = _number(text)
    return str(int(number)) if math.isfinite(number) and number == int(number) else text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _cell(value) -> str:
    if value is None:
        return ""
    differs = value != value
    # pandas' NA equals nothing, and is neither true nor false
    missing = bool(differs) if isinstance(differs, bool | np.bool_) else str(value) == "<NA>"
    return "" if missing else str(value)


def _same_crs(one: str, other: str) -> bool:
    need("rasterio")
    from rasterio.crs import CRS

    return read_crs(one, "the file") == read_crs(other, "crs") or {one, other} <= {
        _LONGITUDE_LATITUDE,
        CRS.from_epsg(4326).to_string(),
    }


def read_crs(text: str, where: object):
    """A rasterio CRS; refuses text that does not name one."""
    need("rasterio")
    from rasterio.crs import CRS
    from rasterio.errors import RasterioError

    try:
        return CRS.from_user_input(text)
    except (RasterioError, ValueError) as error:
        raise PermafrostError(
            f"{text!r} is not a coordinate system ({first_line(error)})",
            where=where,
            remedy="give for example EPSG:32640",
        ) from error


def _read(path: Path) -> tuple[dict[str, list], str | None, int]:
    """Texts by column, the coordinate system, and the number of the first row."""
    check_file(path)
    ending = path.suffix.lower()
    if ending in _GEOJSON:
        return *_read_geojson(path), 1
    if ending in _VECTOR:
        return *_read_vector(path), 1
    remedy = "give a CSV, parquet, GeoJSON or GeoPackage with x, y and reference"
    return columns_of(path, remedy=remedy), None, 1 if ending in (".parquet", ".pq") else 2


def _read_geojson(path: Path) -> tuple[dict[str, list], str]:
    try:
        content = json.loads(path.read_bytes())
        system = content.get("crs")
        crs = system["properties"]["name"] if system else _LONGITUDE_LATITUDE
        features = content["features"]
        shapes = [each["geometry"] or {} for each in features]
        fields = [each.get("properties") or {} for each in features]
        bad = [number for number, shape in enumerate(shapes, 1) if shape.get("type") != "Point"]
        if not bad:
            points = np.array([shape["coordinates"][:2] for shape in shapes], float).reshape(-1, 2)
    # damaged content raises errors of any type
    except Exception as error:
        raise PermafrostError(
            f"cannot be read as GeoJSON ({first_line(error, named=True)})",
            where=path,
            remedy="give a FeatureCollection of points",
        ) from error
    _check_points(bad, path)
    names = list(dict.fromkeys(name for each in fields for name in each))
    table = {name: [_cell(each.get(name)) for each in fields] for name in names}
    return _with_points(table, points), crs


def _read_vector(path: Path) -> tuple[dict[str, list], str | None]:
    need("pyogrio")
    import pyogrio
    import shapely

    try:
        layers = pyogrio.list_layers(path)
        if len(layers) != 1:
            raise ValueError(f"it has {len(layers)} layers, not one")
        meta, _, wkb, fields = pyogrio.raw.read(path, force_2d=True)
        shapes = shapely.from_wkb(wkb)
    # readers fail on damaged files in many ways
    except Exception as error:
        raise PermafrostError(
            f"cannot be read as a file of points ({first_line(error, named=True)})",
            where=path,
            remedy="give a GeoPackage, Shapefile or FlatGeobuf with one layer",
        ) from error
    _check_points((np.flatnonzero(shapely.get_type_id(shapes) != 0) + 1).tolist(), path)
    names = meta["fields"].tolist()
    table = {
        name: [_cell(value) for value in field] for name, field in zip(names, fields, strict=True)
    }
    return _with_points(
        table, np.stack([shapely.get_x(shapes), shapely.get_y(shapes)], axis=1)
    ), meta["crs"]


def _check_points(wrong: list[int], path: Path) -> None:
    if wrong:
        raise PermafrostError(
            f"{len(wrong)} shapes are not points (the first: number {wrong[0]})",
            where=path,
            remedy="give points, for example the centres of the polygons",
        )


def _with_points(table: dict[str, list], points: np.ndarray) -> dict[str, list]:
    """The table with the geometry as x and y, in place of attributes of these names."""
    return {
        **table,
        "x": list(map(repr, points[:, 0].tolist())),
        "y": list(map(repr, points[:, 1].tolist())),
    }
