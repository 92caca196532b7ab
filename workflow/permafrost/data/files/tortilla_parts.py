"""Parts of samples in tortilla files: pixels of several dates, masks, and objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.parquet_files import check_expansion
from permafrost.data.files.decode import (
    UnreadableImage,
    check_page,
    image_format,
    open_tiff,
    readable,
)
from permafrost.data.files.georeference import NOWHERE, Georeference, georeference
from permafrost.data.files.opening import check_bytes, open_array, open_hdf5
from permafrost.data.files.tortilla import Item, dates_of

FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class Pixels:
    """Images of one sensor on one grid.

    ``values`` (T, C, H, W); ``dates``, T of them, None if unknown; ``place``, the georeference of
    the first; ``nodata``, the file's nodata value.
    """

    values: np.ndarray
    dates: tuple[str | None, ...] = (None,)
    place: Georeference = NOWHERE
    nodata: float | None = None


def read_sensor(parts: Sequence[Item], date: str | int | None = None) -> Pixels:
    """The images of a sensor, of all dates or of one.

    Parameters
    ----------
    parts : of one sensor, see `tortilla.by_sensor`.
    date : ``first``, ``last``, a number from 0 (from -1 backwards), or the date as `dates_of` writes it.

    Raises
    ------
    UnreadableImage : damaged; no such date; images of several dates differ in shape or type.
    """
    dates = dates_of(parts)
    if len(parts) == 1:
        return _one_part(parts[0], dates, date)
    chosen = range(len(parts)) if date is None else [date_position(dates, len(parts), date)]
    each = [_one_part(parts[i], [dates[i]], None) for i in chosen]
    kinds = {(one.values.shape, str(one.values.dtype)) for one in each}
    if len(kinds) > 1 or len(each[0].values) > 1:
        found = " and ".join(sorted(f"{shape[-3:]} {dtype}" for shape, dtype in kinds)[:2])
        raise UnreadableImage(f"its images of {parts[0].sensor} differ from date to date: {found}")
    return Pixels(
        np.concatenate([one.values for one in each]),
        tuple(dates[i] for i in chosen),
        each[0].place,
        each[0].nodata,
    )


def date_position(dates: Sequence[str | None], count: int, date: str | int) -> int:
    """Position from 0 of a date among `count` images; raises `UnreadableImage` if it does not exist."""
    if date in (FIRST, LAST):
        return 0 if date == FIRST else count - 1
    if isinstance(date, int):
        if -count <= date < count:
            return date % count
        raise UnreadableImage(
            f"has {count} dates, and none with the number {date}", remedy=_MISSING
        )
    if date not in dates:
        shown = ", ".join(str(one) for one in dates if one is not None)
        raise UnreadableImage(
            f"has no image of {date}, only of {shown or 'unnamed dates'}", remedy=_MISSING
        )
    return list(dates).index(date)


_MISSING = "choose another date, or set missing: leave_out in source"


def part_size(part: Item) -> tuple[int, int]:
    """Height and width of an image or array, from its header."""
    data = part.extent.read()
    with readable(f"its part {part.name}"):
        if image_format(data) == "tiff":
            with open_tiff(data) as dataset:
                return dataset.height, dataset.width
        with _hdf5(data) as file:
            return _array(file).shape[-2:]


def annotations_of(part: Item) -> list[dict]:
    """Objects of a part: ``label`` (a name, a number or None), ``box`` (corners), ``polygon`` or None.

    GeoParquet has a column of labels (``label``, ``class_id``, …) and columns xmin, ymin, xmax,
    ymax, or the corners x1, y1 to x4, y4 of rotated boxes (``oriented``); these become the polygon,
    and the box bounds it. HDF5 has JSON in the attribute ``annotation``: boxes as corner and side lengths, and
    category_id.
    """
    data = part.extent.read()
    with readable(f"its part {part.name}"):
        return _boxes_of_table(data) if part.format == "GeoParquet" else _boxes_of_json(data)


def _one_part(part: Item, dates: Sequence[str | None], date: str | int | None) -> Pixels:
    data = part.extent.read()
    with readable(f"its part {part.name}"):
        if image_format(data) == "tiff":
            pixels = _tiff(data)
            if date is not None:
                date_position(dates, 1, date)
            return Pixels(pixels.values, tuple(dates[:1]), pixels.place, pixels.nodata)
        return _series(data, dates, date)


def _tiff(data: bytes) -> Pixels:
    with open_tiff(data) as dataset:
        check_page(dataset, "; store colours or labels instead")
        return Pixels(dataset.read()[None], place=georeference(dataset), nodata=dataset.nodata)


def _series(data: bytes, dates: Sequence[str | None], date: str | int | None) -> Pixels:
    with _hdf5(data) as file:
        array = _array(file)
        # (T, C, H, W), one image, or one channel of an image
        count = array.shape[0] if array.ndim == 4 else 1
        dated = any(dates)
        if dated and len(dates) != count:
            raise UnreadableImage(f"holds {count} images, but {len(dates)} dates are given")
        known = list(dates) if dated else [None] * count
        if date is None:
            values = array[()]
        else:
            chosen = date_position(known, count, date)
            values, known = array[chosen] if array.ndim == 4 else array[()], [known[chosen]]
    values = values.reshape((len(known), -1, *values.shape[-2:]))
    # later readers accept 32-bit floats, which hold 16-bit ones exactly
    return Pixels(values.astype(np.float32) if values.dtype == np.float16 else values, tuple(known))


def _hdf5(data: bytes):
    import h5py

    if data[:8] != b"\x89HDF\r\n\x1a\n":
        raise UnreadableImage("is neither TIFF nor HDF5")
    return h5py.File(open_hdf5(data))


def _array(file):
    """The array ``data`` of an HDF5 file, stored in the file itself."""
    import h5py

    link = file.get("data", getlink=True) if "data" in file else None
    if not isinstance(link, h5py.HardLink) or not isinstance(file["data"], h5py.Dataset):
        raise UnreadableImage(f"has no array 'data', only {', '.join(file) or 'nothing'}")
    array = h5py.Dataset(open_array(file.id, "data"))
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 3, 4) or 0 in array.shape:
        raise UnreadableImage(
            f"holds {array.dtype} values of shape {array.shape}, which are no pixels"
        )
    return array


#: columns of a table of objects: possible names of the label, sides of a box, corners of a rotated
#: box
_LABELS = ("label", "class_id", "category_id", "class", "category")
_BOX = ("xmin", "ymin", "xmax", "ymax")
_CORNERS = tuple(f"{axis}{number}" for number in range(1, 5) for axis in "xy")


def _boxes_of_table(data: bytes) -> list[dict]:
    file = pq.ParquetFile(pa.BufferReader(data))
    names = file.schema_arrow.names
    if not file.metadata.num_rows:
        # such a table may lack its columns
        return []
    # a number takes at least eight bytes
    check_bytes(8 * file.metadata.num_rows * len(names), "its table of objects")
    label = next((name for name in _LABELS if name in names), None)
    corners = _CORNERS if set(_CORNERS) <= set(names) else ()
    box = _BOX if set(_BOX) <= set(names) else ()
    if label is None or not (box or corners):
        lacking = (
            f"labels ({', '.join(_LABELS)})" if label is None else f"boxes ({', '.join(_BOX)})"
        )
        raise UnreadableImage(
            f"its table of objects has no column of {lacking}, only {', '.join(names)}",
            remedy="name another part with boxes in source, or write the table with such columns",
        )
    check_expansion(data, [label, *box, *corners])
    rows = file.read([label, *box, *corners]).to_pylist()
    rings = [[row[name] for name in corners] for row in rows]
    return [
        {
            "label": row[label],
            "box": [row[name] for name in box] if box else [*map(min, xy), *map(max, xy)],
            "polygon": [ring] if corners else None,
            "oriented": bool(corners),
        }
        for row, ring in zip(rows, rings, strict=True)
        for xy in [(ring[::2], ring[1::2])]
    ]


def _boxes_of_json(data: bytes) -> list[dict]:
    with _hdf5(data) as file:
        if "annotation" not in file.attrs:
            raise UnreadableImage("has no attribute 'annotation'")
        content = json.loads(file.attrs["annotation"])
    listed = content.get("boxes", content.get("sample_annotations"))
    if listed is None:
        raise UnreadableImage("lists neither 'boxes' nor 'sample_annotations'")
    objects = []
    for one in listed:
        if one.get("bbox_mode", "xywh") != "xywh":
            raise UnreadableImage(f"has boxes of the mode {one['bbox_mode']!r}, not xywh")
        x, y, width, height = one["bbox"]
        rings = one.get("mask")
        polygon = (
            rings if isinstance(rings, list) and rings and isinstance(rings[0], list) else None
        )
        objects.append(
            {"label": one["category_id"], "box": [x, y, x + width, y + height], "polygon": polygon}
        )
    return objects
