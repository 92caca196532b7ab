"""Table files: CSV; parquet, also with images in cells; WebDataset's tars, whose files are cells.

`table_zarr` and `table_stac` read other formats.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.parquet_files import check_expansion
from permafrost.data.files.cache import LeastRecentlyUsed
from permafrost.data.files.members import open_members

#: separator of several values in a cell
SEPARATOR = ";"
# separators that spreadsheets write instead of commas
_OTHER_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
#: endings of table files
PARQUET, TAR = (".parquet", ".pq"), (".tar", ".tar.gz", ".tgz")
ENDINGS = (".csv", *PARQUET, *TAR)
#: endings of images in a tar
IMAGES = ("jpg", "jpeg", "png", "tif", "tiff", "npy")
#: a larger file in a tar is not read as text, unless it is json
_MOST_TEXT = 1 << 16
_SAMPLE = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)")
#: cached row groups over all files of a table (threads read several at a time), and cached columns
#: of each
_GROUPS, _COLUMNS = 8, 64

Cell = str | None


@dataclass(frozen=True)
class TableFile:
    """Content of a file.

    Attributes
    ----------
    columns : text of each row by column, None for an empty cell.
    classes : for columns of class numbers, the class names in the file, in order.
    images : for columns of images, a name for each row, not necessarily unique; None without an
        image.
    read : bytes of the image of a column and row.
    first : number of the first row in an editor: 2 for a CSV, after its header.
    """

    columns: dict[str, list[Cell]]
    classes: dict[str, list[str]] = field(default_factory=dict)
    images: dict[str, list[Cell]] = field(default_factory=dict)
    read: Callable[[str, int], bytes] | None = None
    first: int = 1

    def __len__(self) -> int:
        return max(map(len, (*self.columns.values(), *self.images.values())), default=0)


def row_groups() -> LeastRecentlyUsed:
    """Cache of (file, number of a row group) -> function from a column name to the group's cells."""
    return LeastRecentlyUsed(_columns_of, _GROUPS)


def _columns_of(place: tuple[Path, int]) -> LeastRecentlyUsed:
    path, group = place

    def read(column: str):
        check_expansion(path, [column], group)
        with pq.ParquetFile(path) as file:
            return file.read_row_group(group, columns=[column]).column(0)

    return LeastRecentlyUsed(read, _COLUMNS)


def read_file(path: Path, where: object, groups: LeastRecentlyUsed) -> TableFile:
    """Read a file by its ending; damage raises various exceptions.

    Parameters
    ----------
    groups : `row_groups` of the table; shared, so that many files need no more memory than one.
    """
    ending = path.name.lower()
    if ending.endswith(PARQUET):
        return _read_parquet(path, groups)
    if ending.endswith(TAR):
        return _read_tar(path, where)
    return TableFile(_read_csv(path), first=2)


def _read_csv(path: Path) -> dict[str, list[Cell]]:
    with open(path, newline="", encoding="utf-8-sig") as stream:
        reader = csv.reader(stream, strict=True)
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise ValueError("two columns have the same name")
        for sign, word in _OTHER_SEPARATORS.items():
            if len(header) == 1 and sign in header[0]:
                raise ValueError(
                    f"its columns {header[0]!r} are separated by {word}, not by commas"
                )
        rows = [row for row in reader if row]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} cells, the header {len(header)}")
    return {name: [row[i] or None for row in rows] for i, name in enumerate(header)}


def _read_parquet(path: Path, groups: LeastRecentlyUsed) -> TableFile:
    schema = pq.read_schema(path)
    # Hugging Face's images are structs {bytes, path}
    structs = [
        one.name for one in schema if pa.types.is_struct(one.type) and _is_image(one.type, pa)
    ]
    plain = [
        one.name
        for one in schema
        if pa.types.is_binary(one.type) or pa.types.is_large_binary(one.type)
    ]
    # and their arrays are lists of lists
    arrays = {one.name: kind for one in schema if (kind := _array_type(one.type, pa)) is not None}
    wanted = [name for name in schema.names if name not in {*structs, *plain, *arrays}]
    paths = [
        f"{name}.path" for name in structs if schema.field(name).type.get_field_index("path") >= 0
    ]
    check_expansion(path, [*wanted, *paths])
    table = pq.ParquetFile(path).read(columns=[*wanted, *paths])
    classes = _class_names(schema.metadata or {})
    columns = {
        name: [cell_text(value, classes.get(name)) for value in table[name].to_pylist()]
        for name in wanted
    }
    about = pq.read_metadata(path)
    rows = about.num_rows
    images: dict[str, list[Cell]] = {name: [None] * rows for name in (*plain, *arrays)}
    for name in structs:
        found = table[name].to_pylist() if f"{name}.path" in paths else [None] * rows
        images[name] = [one and one["path"] for one in found]
    starts = [0, *accumulate(about.row_group(i).num_rows for i in range(about.num_row_groups))]

    def read(column: str, row: int) -> bytes:
        group = bisect.bisect_right(starts, row) - 1
        try:
            cells = groups((path, group))(f"{column}.bytes" if column in structs else column)
            value = cells[row - starts[group]].as_py()
        except Exception as error:  # a damaged file raises errors of any type
            raise OSError(str(error)) from error
        value = value["bytes"] if isinstance(value, dict) else value
        if value is None:
            raise OSError("the cell is empty")
        return npy_of(value, arrays[column]) if column in arrays else value

    return TableFile(columns, classes, images, read if images else None)


def _array_type(kind, pa) -> np.dtype | None:
    """Number type of an array with two or more axes; None for other columns."""
    axes = 0
    while (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        kind, axes = kind.value_type, axes + 1
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return np.dtype(kind.to_pandas_dtype()) if axes > 1 and numbers else None


def npy_of(values: object, dtype: np.dtype | None = None) -> bytes:
    """Encode numbers as npy; raises `OSError` for lists that are not an array."""
    stream = io.BytesIO()
    try:
        np.save(stream, np.asarray(values, dtype), allow_pickle=False)
    except (TypeError, ValueError) as error:
        raise OSError(f"the cell holds no array ({error})") from error
    return stream.getvalue()


def _is_image(kind, pa) -> bool:
    index = kind.get_field_index("bytes")
    return index >= 0 and (
        pa.types.is_binary(kind.field(index).type)
        or pa.types.is_large_binary(kind.field(index).type)
    )


def _class_names(metadata: dict[bytes, bytes]) -> dict[str, list[str]]:
    """Class names by column, from the metadata of Hugging Face's datasets."""
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    found = {}
    for column, one in features.items():
        # for lists of classes, the feature inside
        inner = one[0] if isinstance(one, list) and one else one
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[column] = [str(name) for name in inner["names"]]
    return found


def cell_text(value: object, names: list[str] | None = None) -> Cell:
    """A value as cell text: lists joined by `SEPARATOR`, class numbers as these `names`; None for NaN."""
    if value is None or value != value:
        return None
    if isinstance(value, list):
        return SEPARATOR.join(text for one in value if (text := cell_text(one, names)) is not None)
    if names is not None and isinstance(value, int):
        # -1 means an unknown class
        return names[value] if 0 <= value < len(names) else None
    return str(value)


def _read_tar(path: Path, where: object) -> TableFile:
    """Samples in WebDataset's format: files of one name up to the first dot, whose endings are the columns.

    ``json`` gives a column for each key, ``json.crop``. Files that are neither image nor text are
    ignored.
    """
    members = open_members(path, where=where)
    rows: dict[str, int] = {}
    found: dict[tuple[int, str], str] = {}
    files: dict[str, dict[int, str]] = {}
    texts: dict[str, dict[int, Cell]] = {}
    for name in members.names:
        match = _SAMPLE.fullmatch(name)
        if match is None:
            continue
        row, ending = rows.setdefault(match[1], len(rows)), match[2].lower()
        if (other := found.setdefault((row, ending), name)) != name:
            raise ValueError(f"{other} and {name} are two files of one column")
        last = ending.rpartition(".")[2]
        if last in IMAGES:
            files.setdefault(ending, {})[row] = name
        elif last == "json" or members.size(name) <= _MOST_TEXT:
            for column, text in _texts(ending, last, members.read(name)):
                texts.setdefault(column, {})[row] = text

    def read(column: str, row: int) -> bytes:
        if row not in files.get(column, {}):
            raise OSError("the sample has no such file")
        return members.read(files[column][row])

    count = len(rows)
    columns = {name: [cells.get(row) for row in range(count)] for name, cells in texts.items()}
    return TableFile(
        {"__key__": list(rows), **columns},
        images={name: [cells.get(row) for row in range(count)] for name, cells in files.items()},
        read=read,
    )


def _texts(ending: str, last: str, data: bytes) -> Iterator[tuple[str, Cell]]:
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        return
    if last != "json":
        yield ending, text or None
        return
    yield from flat(ending, json.loads(text))


def flat(name: str, value: object) -> Iterator[tuple[str, Cell]]:
    """Columns of a JSON value; for an object, one per key, ``name.key``."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(f"{name}.{key}", one)
    else:
        yield name, cell_text(value)
