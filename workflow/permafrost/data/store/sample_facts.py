"""Properties of samples from decoding, besides pixels, in columns: about 450 bytes per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from permafrost.data.records import Decoded, Record
from permafrost.data.store.image_hashes import ImageHashes

#: samples whose texts are collected before conversion to an array
_BLOCK = 1024
_NO_CRS = -1


class TextColumn:
    """A growing column of an Arrow type; only a few values are Python objects at a time."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._blocks: list[pa.Array] = []
        self._open: list = []

    def __len__(self) -> int:
        return len(self._blocks) * _BLOCK + len(self._open)

    def __getitem__(self, row: int):
        block, place = divmod(row, _BLOCK)
        if block == len(self._blocks):
            return self._open[place]
        return self._blocks[block][place].as_py()

    def append(self, value) -> None:
        self._open.append(value)
        if len(self._open) == _BLOCK:
            self._blocks.append(pa.array(self._open, self._kind))
            self._open = []

    def extend(self, values: pa.ChunkedArray) -> None:
        for chunk in values.chunks:
            for start in range(0, len(chunk), _BLOCK):
                for value in chunk[start : start + _BLOCK].to_pylist():
                    self.append(value)

    def column(self) -> pa.ChunkedArray:
        return pa.chunked_array([*self._blocks, pa.array(self._open, self._kind)], self._kind)


class SampleFacts:
    """Columns over the samples of a split, or over consecutive ones.

    Attributes
    ----------
    heights, widths : (N,) int32 of the first modality.
    lon, lat : (N,) degrees, NaN if the file does not state them.
    crs : (N,) int32 index into `crs_names`, -1 for none.
    transforms : (N, 6), NaN if the file has none; None until one has.
    hashes : of the pixels.
    days : date of each single image of the first modality, None if unknown.
    dates : for each series, by its column, the dates of every sample.
    """

    def __init__(self, count: int, series: Sequence[str] = ()) -> None:
        self.count, self.filled = count, 0
        self.heights, self.widths = np.zeros((2, count), np.int32)
        self.lon, self.lat = np.full((2, count), np.nan)
        self.crs = np.full(count, _NO_CRS, np.int32)
        self.crs_names: dict[str, int] = {}
        self.transforms: np.ndarray | None = None
        self.hashes = ImageHashes.empty(count)
        self.days = TextColumn(pa.string())
        self.dates = {name: TextColumn(pa.list_(pa.string())) for name in series}

    def __len__(self) -> int:
        return self.filled

    def add(self, decoded: Sequence[Decoded], hashes: ImageHashes) -> None:
        """Append samples."""
        for number, one in enumerate(decoded):
            row = self.filled + number
            self.heights[row], self.widths[row] = one.image.shape[-2:]
            place = one.place
            if place.lon is not None:
                self.lon[row], self.lat[row] = place.lon, place.lat
            if place.crs is not None:
                self.crs[row] = self.crs_names.setdefault(place.crs, len(self.crs_names))
            if place.transform is not None:
                self._transforms()[row] = place.transform
            self._add_dates(one)
        self.hashes.put(self.filled, hashes)
        self.filled += len(decoded)

    def _add_dates(self, decoded: Decoded) -> None:
        known = decoded.dates or (None,) * len(decoded.arrays)
        single = decoded.image.ndim == 3 and known[0]
        self.days.append(known[0][0] if single else None)
        series = (pair for pair in zip(decoded.arrays, known, strict=True) if pair[0].ndim == 4)
        for column, (array, dates) in zip(self.dates.values(), series, strict=True):
            column.append(dates or (None,) * len(array))

    def _transforms(self) -> np.ndarray:
        if self.transforms is None:
            self.transforms = np.full((self.count, 6), np.nan)
        return self.transforms

    @property
    def georeferenced(self) -> bool:
        """Whether at least one image has a georeference."""
        return self.transforms is not None

    def as_table(self) -> pa.Table:
        """All columns as a table, for a file."""
        columns = {
            "height": self.heights,
            "width": self.widths,
            "lon": self.lon,
            "lat": self.lat,
            "exact": _binary(self.hashes.exact),
            "dhash": self.hashes.dhash,
            "thumb": _lists(self.hashes.thumbs),
            "crs": self.crs_column(0, self.count),
            "day": self.days.column(),
            **{f"series {name}": column.column() for name, column in self.dates.items()},
        }
        if self.transforms is not None:
            columns["transform"] = _lists(self.transforms)
        return pa.table(columns)

    def extend(self, table: pa.Table) -> None:
        """Append samples from a table of `as_table`."""
        stop = self.filled + len(table)
        rows = slice(self.filled, stop)
        numbers = ("height", self.heights), ("width", self.widths), ("lon", self.lon)
        for name, column in (*numbers, ("lat", self.lat), ("dhash", self.hashes.dhash)):
            column[rows] = table[name].to_numpy()
        self.hashes.exact[rows] = _digests(table["exact"])
        self.hashes.thumbs[rows] = _rows(table["thumb"])
        for number, name in enumerate(table["crs"].to_pylist(), self.filled):
            if name is not None:
                self.crs[number] = self.crs_names.setdefault(name, len(self.crs_names))
        if "transform" in table.column_names:
            self._transforms()[rows] = _rows(table["transform"])
        self.days.extend(table["day"])
        for name, column in self.dates.items():
            column.extend(table[f"series {name}"])
        self.filled = stop

    def crs_column(self, start: int, stop: int) -> pa.Array:
        names = list(self.crs_names)
        found = self.crs[start:stop].tolist()
        return pa.array([None if n == _NO_CRS else names[n] for n in found], pa.string())

    def transform_column(self, start: int, stop: int) -> list[list[float] | None]:
        if self.transforms is None:
            return [None] * (stop - start)
        found = self.transforms[start:stop]
        return [None if np.isnan(one[0]) else one.tolist() for one in found]


class Placed(Sequence[Record]):
    """Records of a split, completed with lon, lat and date from the files; built on access."""

    def __init__(self, records: Sequence[Record], facts: SampleFacts) -> None:
        self._records, self._facts = records, facts
        self._lon, self._lat = facts.lon, facts.lat

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, row):
        if isinstance(row, slice):
            return [self._at(number) for number in range(*row.indices(len(self)))]
        return self._at(range(len(self))[row])

    def __iter__(self) -> Iterator[Record]:
        return map(self._at, range(len(self)))

    def _at(self, row: int) -> Record:
        record = self._records[row]
        if record.lon is None and not np.isnan(self._lon[row]):
            record = record.placed(float(self._lon[row]), float(self._lat[row]))
        if not record.date and (day := self._facts.days[row]):
            record = replace(record, date=day)
        return record


def _binary(values: np.ndarray) -> pa.Array:
    kind = pa.binary(values.dtype.itemsize)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.tobytes())])


def _digests(column: pa.ChunkedArray) -> np.ndarray:
    found = [
        np.frombuffer(chunk.buffers()[1], "V16")[chunk.offset :][: len(chunk)]
        for chunk in column.chunks
    ]
    return np.concatenate([np.empty(0, "V16"), *found])


def _lists(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _rows(column: pa.ChunkedArray) -> np.ndarray:
    width = column.type.list_size
    found = [chunk.flatten().to_numpy().reshape(-1, width) for chunk in column.chunks]
    return np.concatenate([np.empty((0, width)), *found])
