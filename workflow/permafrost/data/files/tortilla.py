"""Tortilla files (GEO-Bench V2), which hold many samples: images of several sensors and dates, and labels.

Layout: two magic bytes, then offset and length of the footer (two little-endian 64-bit numbers).
The footer is a parquet table with a row for each item: name, format, offset and length of its
bytes, and further columns. An item may be a tortilla file itself, whose offsets count from its own
first byte. A dataset's file holds samples, and a sample holds parts: GeoTIFF, HDF5 or GeoParquet.

Files are not trusted: every length is checked against the available bytes, and no content is
executed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from permafrost.core.parquet_files import check_expansion
from permafrost.data.files.decode import UnreadableImage, readable

NESTED = "TORTILLA"
MAGIC = (b"#y", b"WX")
_HEADER = struct.Struct("<2sQQ")
#: nesting depth of files; published files have two levels
MOST_LEVELS = 8
#: size of an unpacked footer: 100 times that of a dataset of 30,000 samples
MOST_FOOTER_BYTES = 2**31
_REQUIRED = ("tortilla:id", "tortilla:file_format", "tortilla:offset", "tortilla:length")
_CUT = "get the file again: it may be cut off, or another file than its name says"


@dataclass(frozen=True)
class Extent:
    """A range of bytes in a file."""

    path: Path
    offset: int
    length: int

    @classmethod
    def whole(cls, path: Path) -> Extent:
        return cls(path, 0, path.stat().st_size)

    def read(self, start: int = 0, length: int | None = None) -> bytes:
        """Read `length` bytes, or all, from `start` of the range; raises `UnreadableImage` if the file is shorter."""
        length = self.length - start if length is None else length
        with open(self.path, "rb") as stream:
            stream.seek(self.offset + start)
            data = stream.read(length)
        if len(data) < length:
            raise UnreadableImage(f"ends {length - len(data)} bytes too early", remedy=_CUT)
        return data

    def inner(self, start: int, length: int) -> Extent:
        return Extent(self.path, self.offset + start, length)


@dataclass(frozen=True)
class Item:
    """A row of a footer: a sample, or a part of one.

    ``columns`` are the further columns of the footer; the dataset defines their meaning.
    """

    name: str
    format: str
    extent: Extent
    columns: dict[str, Any]

    @property
    def split(self) -> str | None:
        return self.columns.get("tortilla:data_split")

    @property
    def sensor(self) -> str:
        """Common name of the parts of several dates: their modality, else the name of the only part."""
        return self.columns.get("modality") or self.name

    @property
    def date(self) -> str | None:
        """The date (ISO 8601) or the name of the month; None if the file has neither."""
        return iso_date(self.columns.get("stac:time_start")) or self.columns.get("month")


def read_items(extent: Extent, columns: Sequence[str] | None = None) -> list[Item]:
    """The items of a tortilla file, which may be nested in another.

    Parameters
    ----------
    columns : wanted besides the required ones; None for all. Missing ones are omitted.

    Raises
    ------
    UnreadableImage : it is not a tortilla file, is truncated, or has an impossible footer.
    """
    rows = _footer(extent, columns)
    items = []
    for row in rows:
        name, kind, start, length = (row.pop(key) for key in _REQUIRED)
        if not isinstance(name, str) or not isinstance(kind, str):
            raise UnreadableImage("has a footer with an item that has no name or no format")
        within = isinstance(start, int) and isinstance(length, int)
        # an item that begins in the header could be the file itself, which would recur endlessly
        if not (within and start >= _HEADER.size and 0 < length <= extent.length - start):
            raise UnreadableImage(
                f"says that {name} lies at byte {start} and has {length} bytes, but it holds only"
                f" {extent.length}",
                remedy=_CUT,
            )
        items.append(Item(name, kind, extent.inner(start, length), row))
    return items


def parts_of(sample: Item, columns: Sequence[str] | None = None) -> list[Item]:
    """The parts of a sample in order; parts of a nested file are named ``part/its own``."""
    if sample.format != NESTED:
        return [sample]
    return _parts(sample, columns, 1)


def by_sensor(parts: Sequence[Item]) -> dict[str, list[Item]]:
    """The parts of each sensor or label, one part per date; raises `UnreadableImage` for duplicate names."""
    found: dict[str, list[Item]] = {}
    for part in parts:
        found.setdefault(part.sensor, []).append(part)
    for sensor, several in found.items():
        names = [part.name for part in several]
        if len(set(names)) < len(names):
            raise UnreadableImage(f"has two parts named {names[0]}")
        _check_order([part.date for part in several], sensor)
    return found


def dates_of(parts: Sequence[Item]) -> list[str | None]:
    """The dates of a sensor's images in order; a single part may list several."""
    listed = parts[0].columns.get("dates") if len(parts) == 1 else None
    if not listed:
        return [part.date for part in parts]
    dates = [iso_date(value) for value in listed]
    _check_order(dates, parts[0].sensor)
    return dates


def iso_date(value: Any) -> str | None:
    """A date of such a file as ISO 8601; None if it has none.

    Files write seconds since 1970, YYYYMMDD, a year alone, or text; 0 and NaN mean unknown.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value) if value else None
    if number == 0 or number != number:
        return None
    if 1900 <= number <= 2200 and number == int(number):
        return str(int(number))
    text = str(int(number)) if number == number and abs(number) < 1e15 else ""
    if len(text) == 8 and "1900" <= text[:4] <= "2200":
        try:
            return datetime.strptime(text, "%Y%m%d").date().isoformat()
        except ValueError:
            pass
    try:
        return datetime.fromtimestamp(number, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _parts(item: Item, columns: Sequence[str] | None, level: int) -> list[Item]:
    if level > MOST_LEVELS:
        raise UnreadableImage(f"has files in files, more than {MOST_LEVELS} levels deep")
    found = []
    for part in read_items(item.extent, columns):
        if part.format == NESTED:
            inner = _parts(part, columns, level + 1)
            found += [Item(f"{part.name}/{i.name}", i.format, i.extent, i.columns) for i in inner]
        else:
            found.append(part)
    return found


def _footer(extent: Extent, columns: Sequence[str] | None) -> list[dict]:
    if extent.length < _HEADER.size:
        raise UnreadableImage("is no tortilla file: it has not even a header", remedy=_CUT)
    magic, start, length = _HEADER.unpack(extent.read(0, _HEADER.size))
    if magic not in MAGIC:
        raise UnreadableImage(f"is no tortilla file: it begins with {magic!r}", remedy=_CUT)
    if not (start >= _HEADER.size and 0 < length <= extent.length - start):
        raise UnreadableImage(
            f"says that its footer lies at byte {start} and has {length} bytes, but it holds only"
            f" {extent.length}",
            remedy=_CUT,
        )
    with readable("has a footer that is no parquet table"):
        footer = extent.read(start, length)
        table = pq.ParquetFile(pa.BufferReader(footer))
        groups = range(table.metadata.num_row_groups)
        size = sum(table.metadata.row_group(group).total_byte_size for group in groups)
        names = table.schema_arrow.names
    if size > MOST_FOOTER_BYTES:
        raise UnreadableImage(f"has a footer of {size / 1e9:.1f} GB once it is unpacked")
    missing = [name for name in _REQUIRED if name not in names]
    if missing:
        raise UnreadableImage(f"has a footer without {', '.join(missing)}")
    wanted = None if columns is None else [n for n in names if n in (*_REQUIRED, *columns)]
    with readable("has a footer that is damaged"):
        check_expansion(footer, wanted)
        return table.read(wanted).to_pylist()


def _check_order(dates: Sequence[str | None], sensor: str) -> None:
    """Refuse dates that are not ascending; names of months lack the year and are not compared."""
    days = [date for date in dates if date is not None and date[:1].isdigit()]
    late = [later for earlier, later in zip(days, days[1:], strict=False) if later < earlier]
    if late:
        raise UnreadableImage(
            f"its dates of {sensor} are out of order: {late[0]} comes after a later one",
            remedy="correct the file: its first and last dates would not be those",
        )
