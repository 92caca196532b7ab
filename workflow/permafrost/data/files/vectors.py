"""Files of shapes: GeoPackage, GeoJSON, Shapefile and FlatGeobuf; and their shapes in pixels of an image."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely

from permafrost.core.errors import first_line
from permafrost.core.opened import note
from permafrost.data.files.georeference import Georeference, check_crs, moved
from permafrost.data.files.members import Members

#: ending of a vector file -> its first bytes; other formats could refer to other files and hosts
BEGINNINGS = {
    ".gpkg": b"SQLite format 3\0",
    ".geojson": b"{",
    ".json": b"{",
    ".shp": b"\x00\x00\x27\x0a",
    ".fgb": b"fgb",
}
#: what a person may do about a file that is none of them
FORMATS = "a GeoPackage, GeoJSON, Shapefile (all its files) or FlatGeobuf"
#: coordinates this near to an edge of the image lie on it: two conversions of coordinates are not exact
_ON_EDGE = 1e-3
#: names of coordinate systems that mean none
_UNDEFINED = ("undefined", "unknown")
_GEOJSON = (".geojson", ".json")


def is_shapes(name: str) -> bool:
    return name.lower().endswith(tuple(BEGINNINGS))


def parts_of_shapefiles(names: Iterable[str]) -> set[str]:
    """The names of files that belong to a Shapefile, such as its .dbf, without the .shp."""
    names = list(names)
    stems = {name[: -len(".shp")] for name in names if name.lower().endswith(".shp")}
    return {
        name
        for name in names
        if not name.lower().endswith(".shp")
        and (os.path.splitext(name)[0] in stems or name.removesuffix(".shp.xml") in stems)
    }


@dataclass(frozen=True)
class Vectors:
    """Shapes of a file.

    Attributes
    ----------
    shapes : (N,) shapely objects in two dimensions; None or empty for a feature without a shape.
    crs : coordinate system as text; None if the file declares none.
    fields : (N,) values of each attribute.
    """

    shapes: np.ndarray
    crs: str | None
    fields: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.shapes)


def read_vectors(
    members: Members | None, name: str | os.PathLike, layer: str | None = None
) -> Vectors:
    """Read a layer of a file.

    Parameters
    ----------
    members : that hold the file; None if `name` is a path.
    layer : its name; None for the only one.

    Raises
    ------
    ValueError : not such a file, damaged, several layers, or no layer of that name.
    """
    import pyogrio

    name = os.fspath(name)
    check_beginning(members, name)
    location = name if members is None else members.location(name)
    if members is None:
        note(name)
    try:
        layers = [str(one) for one, _ in pyogrio.list_layers(location)]
        _check_layer(layers, layer)
        meta, _, wkb, fields = pyogrio.raw.read(location, layer=layer, force_2d=True)
        if wkb is None:
            raise ValueError("it is a table without shapes")
        shapes = np.atleast_1d(shapely.from_wkb(wkb))
        crs = _declared(meta["crs"])
    except ValueError:
        raise
    # readers fail on damaged files in many ways
    except Exception as error:
        raise ValueError(first_line(error, named=True)) from error
    return Vectors(shapes, crs, dict(zip(meta["fields"].tolist(), fields, strict=True)))


def _check_layer(layers: list[str], layer: str | None) -> None:
    if layer is None and len(layers) != 1:
        raise ValueError(f"it has {len(layers)} layers, not one: {', '.join(layers[:10])}")
    if layer is not None and layer not in layers:
        raise ValueError(f"it has no layer {layer!r}, only {', '.join(layers[:10])}")


def _declared(crs: str | None) -> str | None:
    """A coordinate system of a file; None for those by which GeoPackages say that there is none."""
    if crs is None:
        return None
    check_crs(crs)
    if not crs.startswith(("ENGCRS", "LOCAL_CS")):
        return crs
    return None if any(word in crs[:80].lower() for word in _UNDEFINED) else crs


def check_beginning(members: Members | None, name: str) -> None:
    """Raise `ValueError` unless a file of shapes is what its ending says, and leads to no other place.

    Parameters
    ----------
    members : that hold the file; None if `name` is a path.
    """
    ending = name[name.rfind(".") :].lower()
    if ending not in BEGINNINGS:
        raise ValueError(f"{ending} is not a file ending for shapes")
    if members is not None:
        members.verify(name)
    with open(name, "rb") if members is None else members.open(name) as stream:
        beginning = stream.read(64)
        # JSON may begin with a byte order mark and spaces
        if written := ending in _GEOJSON:
            beginning = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not beginning.startswith(BEGINNINGS[ending]):
        raise ValueError(f"it does not begin as {ending} does")
    if written:
        _check_geojson(Path(name).read_bytes() if members is None else members.read(name))


def _check_geojson(data: bytes) -> None:
    # a document without these texts need not be parsed; letters may be escaped
    if not any(text in data for text in (b'crs"', b"gdal_", b"\\u")):
        return
    content = json.loads(data)
    if str(content.get("type")).startswith("gdal_"):
        raise ValueError("it is a command for GDAL")
    system = content.get("crs")
    kind = system.get("type") if isinstance(system, dict) else "name"
    if str(kind).lower() not in ("name", "epsg"):
        raise ValueError(f"its coordinate system is a {kind}, not a name")


def in_system(vectors: Vectors, crs: str) -> Vectors:
    """The shapes in another coordinate system; None for a shape that has no place there."""
    if vectors.crs == crs:
        return vectors
    shapes = vectors.shapes.copy()
    points, owner = shapely.get_coordinates(shapes, return_index=True)
    found = moved(vectors.crs, crs, points[:, 0], points[:, 1]).T if len(points) else points
    lost = np.unique(owner[~np.isfinite(found).all(axis=1)])
    shapes = shapely.set_coordinates(shapes, np.nan_to_num(found))
    shapes[lost] = None
    return replace(vectors, shapes=shapes, crs=crs)


def in_pixels(shapes: np.ndarray, place: Georeference) -> np.ndarray:
    """Shapes in the coordinate system of an image as pixels from its outer corner, y downwards."""
    a, b, c, d, e, f = place.transform
    height, width = place.size
    inverse = np.linalg.inv([[a, b], [d, e]])

    def pixels(points: np.ndarray) -> np.ndarray:
        found = (points - (c, f)) @ inverse.T
        edges = np.clip(found, 0, (width, height))
        return np.where(np.abs(found - edges) <= _ON_EDGE, edges, found)

    return shapely.transform(shapes, pixels)


def footprint(place: Georeference) -> shapely.Polygon:
    """The outline of an image in its coordinate system."""
    a, b, c, d, e, f = place.transform
    height, width = place.size
    corners = [(0, 0), (width, 0), (width, height), (0, height)]
    return shapely.Polygon([(a * x + b * y + c, d * x + e * y + f) for x, y in corners])
