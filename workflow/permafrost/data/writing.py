"""Write the image store of one split from its decoded chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from permafrost.core.stores import StoreWriter
from permafrost.core.tasks import task_of
from permafrost.data.audit import ImageHashes
from permafrost.data.band_statistics import BandStatistics
from permafrost.data.classes import label_array
from permafrost.data.georeference import Georeference
from permafrost.data.image_store import GEOREFERENCE, SAMPLES_SCHEMA, StoredModality
from permafrost.data.objects import OBJECTS, WINDOW, objects_column
from permafrost.data.records import Decoded, Record
from permafrost.data.stream import DecodedBatch, Failure
from permafrost.data.targets import TargetStatistics

CHUNK_BYTES = 6_000_000


@dataclass(frozen=True)
class Images:
    """Shape and type of the stored images of one modality; ``dates``, ``height``, ``width`` are the largest.

    ``dates`` is None where they are no series.
    """

    stored: StoredModality
    dates: int | None
    height: int
    width: int
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """(C, H, W) or (T, C, H, W)."""
        image = (len(self.stored.bands), self.height, self.width)
        return image if self.dates is None else (self.dates, *image)

    def holding(self, shape: Sequence[int]) -> Images:
        """Large enough for an image of `shape`, too."""
        dates = None if self.dates is None else max(self.dates, shape[0])
        height, width = max(self.height, shape[-2]), max(self.width, shape[-1])
        return replace(self, dates=dates, height=height, width=width)


@dataclass(frozen=True)
class Layout:
    """What stores of a dataset hold: images of its modalities, masks, numbers."""

    images: tuple[Images, ...]
    mask_dtype: np.dtype | None = None
    ignore_index: int | None = None
    targets: bool = False
    """Whether every image has a raster of numbers."""

    @property
    def rows(self) -> int:
        """Samples per chunk of the store: about 6 MB."""
        size = sum(math.prod(one.shape) * one.dtype.itemsize for one in self.images)
        return max(1, CHUNK_BYTES // size)

    def holding(self, shapes: Sequence[Sequence[int]]) -> Layout:
        """Large enough for images of these shapes, too, one of each modality."""
        pairs = zip(self.images, shapes, strict=True)
        return replace(self, images=tuple(one.holding(shape) for one, shape in pairs))


class SplitWriter:
    """Consumes the batches of one split: pixels go to the store, the rest is remembered.

    Once an image is larger than the layout, or one is unusable, nothing more is written, but all
    images are still looked at: the caller learns every failure, and from `needed` a layout that holds all of them.
    """

    def __init__(self, layout: Layout, classes: int) -> None:
        self.layout = self.needed = layout
        self.failures: list[Failure] = []
        #: of each modality
        self.statistics = [BandStatistics(len(one.stored.bands)) for one in layout.images]
        # the last one counts the ignored pixels
        self.pixel_counts = np.zeros(classes + 1, np.int64)
        self.targets = TargetStatistics()
        # the stored rasters of numbers, where there are some
        self.rasters = None
        self.sizes: list[tuple[int, int]] = []
        self.places: list[Georeference] = []
        # of each series, the dates of every sample
        self.dates: dict[str, list[Sequence[str | None]]] = {
            one.stored.dates: [] for one in layout.images if one.stored.dates is not None
        }
        # of a first modality of one image each
        self.days: list[str | None] = []
        self._hashes: list[ImageHashes] = []

    @property
    def fits(self) -> bool:
        return not self.failures and self.needed == self.layout

    @property
    def hashes(self) -> ImageHashes:
        return ImageHashes.join(self._hashes)

    @property
    def georeferenced(self) -> bool:
        """Whether at least one image says where its pixels lie."""
        return any(place.transform is not None for place in self.places)

    def write(
        self, store: StoreWriter, chunks: Iterable[list[DecodedBatch]], count: int, tick
    ) -> None:
        """Write `count` images; `tick(n)` reports progress."""
        layout = self.layout
        shape = (layout.images[0].height, layout.images[0].width)
        arrays = [
            store.array(
                one.stored.array, (count, *one.shape), one.dtype, rows_per_chunk=layout.rows
            )
            for one in layout.images
        ]
        masks = None
        if layout.mask_dtype is not None:
            masks = store.array(
                "masks", (count, *shape), layout.mask_dtype, rows_per_chunk=layout.rows
            )
        if layout.targets:
            self.rasters = store.array(
                "targets", (count, *shape), np.float32, rows_per_chunk=layout.rows
            )
        start = 0
        for batches in chunks:
            number = sum(len(batch.positions) for batch in batches)
            for batch in batches:
                self._remember(batch)
            if self.fits:
                decoded = [one for batch in batches for one in batch.decoded]
                for place, (array, kind) in enumerate(zip(arrays, layout.images, strict=True)):
                    array[start : start + number] = _padded(
                        [one.arrays[place] for one in decoded], kind.shape, kind.dtype, 0
                    )
                if masks is not None:
                    fill = 0 if layout.ignore_index is None else layout.ignore_index
                    masks[start : start + number] = _padded(
                        [one.mask for one in decoded], shape, layout.mask_dtype, fill
                    )
                if self.rasters is not None:
                    self.rasters[start : start + number] = _padded(
                        [one.target for one in decoded], shape, np.float32, np.nan
                    )
            start += number
            tick(number)

    def _remember(self, batch: DecodedBatch) -> None:
        self.failures += batch.failures
        self.sizes += [one.image.shape[-2:] for one in batch.decoded]
        for shapes in {tuple(array.shape for array in one.arrays) for one in batch.decoded}:
            self.needed = self.needed.holding(shapes)
        for one in batch.decoded:
            self._remember_dates(one)
        self.places += [one.place for one in batch.decoded]
        if not batch.failures:
            self._hashes.append(batch.hashes)
            if batch.statistics is not None:
                for whole, part in zip(self.statistics, batch.statistics, strict=True):
                    whole.merge(part)
            self.pixel_counts += batch.pixel_counts
            self.targets += batch.targets

    def _remember_dates(self, decoded: Decoded) -> None:
        known = decoded.dates or (None,) * len(decoded.arrays)
        single = decoded.image.ndim == 3 and known[0]
        self.days.append(known[0][0] if single else None)
        for one, array, dates in zip(self.layout.images, decoded.arrays, known, strict=True):
            if one.stored.dates is not None:
                self.dates[one.stored.dates].append(dates or (None,) * len(array))

    def placed(self, records: list[Record]) -> list[Record]:
        """The records with lon, lat and date from the files where they have none themselves."""
        placed = [
            record if record.lon is not None else record.placed(place.lon, place.lat)
            for record, place in zip(records, self.places, strict=True)
        ]
        return [
            record if record.date or not day else replace(record, date=day)
            for record, day in zip(placed, self.days, strict=True)
        ]


def write_labels(store: StoreWriter, records: list[Record], task: str) -> None:
    """``labels`` of tasks that label whole images."""
    if task_of(task).dense:
        return
    labels = label_array(records, task)
    store.array("labels", labels.shape, labels.dtype, rows_per_chunk=65_536)[:] = labels


def samples_table(
    records: list[Record], writer: SplitWriter, *, georeferenced: bool = False
) -> pa.Table:
    """samples.parquet of a store.

    Columns of `SAMPLES_SCHEMA`, of `GEOREFERENCE` if asked for, and of objects and windows if the
    records have objects.
    """
    columns = {
        "height": [height for height, _ in writer.sizes],
        "width": [width for _, width in writer.sizes],
        **{
            name: [getattr(record, name) for record in records]
            for name in ("sample_id", "group_id", "lon", "lat", "date")
        },
    }
    fields = list(SAMPLES_SCHEMA)
    if georeferenced:
        fields += GEOREFERENCE
        columns["crs"] = [place.crs for place in writer.places]
        columns["transform"] = [place.transform for place in writer.places]
    for name, dates in writer.dates.items():
        fields.append((name, pa.list_(pa.string())))
        columns[name] = dates
    if records[0].objects is not None:
        fields += [OBJECTS, *WINDOW]
        columns |= _windows(records, writer.sizes)
    schema = pa.schema(fields)
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _windows(records: list[Record], sizes: list[tuple[int, int]]) -> dict:
    """Columns of objects and windows; a sample that is no window of another image is its own."""
    wholes = [
        size if record.image_size is None else record.image_size
        for record, size in zip(records, sizes, strict=True)
    ]
    return {
        "objects": objects_column([record.objects for record in records]),
        "image_id": [record.image_id or record.sample_id for record in records],
        "x_offset": [record.x_offset for record in records],
        "y_offset": [record.y_offset for record in records],
        "image_height": [height for height, _ in wholes],
        "image_width": [width for _, width in wholes],
    }


def _padded(arrays: list[np.ndarray], shape: tuple[int, ...], dtype, fill) -> np.ndarray:
    """Stack of arrays, each filled up at the end of its axes to `shape`."""
    if all(array.shape == shape for array in arrays):
        return np.stack(arrays).astype(dtype, copy=False)
    block = np.full((len(arrays), *shape), fill, dtype)
    for row, array in enumerate(arrays):
        block[(row, *map(slice, array.shape))] = array
    return block
