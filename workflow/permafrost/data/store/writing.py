"""Write the image store of one split from its decoded chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from permafrost.core.stores import StoreWriter
from permafrost.core.tasks import targets_of
from permafrost.data.files.failures import Failure
from permafrost.data.labels.classes import label_array
from permafrost.data.labels.objects import OBJECTS, WINDOW, objects_column
from permafrost.data.records import Record
from permafrost.data.store.findings import Findings
from permafrost.data.store.image_store import GEOREFERENCE, SAMPLES_SCHEMA, StoredModality
from permafrost.data.store.sample_facts import SampleFacts
from permafrost.data.store.stream import DecodedBatch

CHUNK_BYTES = 6_000_000
#: rows of samples.parquet built at once
_BLOCK = 65_536


@dataclass(frozen=True)
class Images:
    """Shape and type of the stored images of one modality; ``dates``, ``height``, ``width`` are maxima.

    ``dates`` is None for single images.
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
        """The same, enlarged if necessary to hold an image of `shape`."""
        dates = None if self.dates is None else max(self.dates, shape[0])
        height, width = max(self.height, shape[-2]), max(self.width, shape[-1])
        return replace(self, dates=dates, height=height, width=width)


@dataclass(frozen=True)
class Raster:
    """An array of pixel labels; ``of`` is the field of `Decoded`, ``fill`` pads smaller images."""

    array: str
    of: str
    dtype: np.dtype
    fill: float


@dataclass(frozen=True)
class Layout:
    """Layout of a dataset's stores: images of its modalities, masks, targets."""

    images: tuple[Images, ...]
    mask_dtype: np.dtype | None = None
    ignore_index: int | None = None
    targets: bool = False
    """Whether every image has a target raster."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the first modality, and of masks and targets."""
        return self.images[0].height, self.images[0].width

    @property
    def rasters(self) -> list[Raster]:
        """The arrays of pixel labels of the first modality."""
        found = []
        if self.mask_dtype is not None:
            fill = 0 if self.ignore_index is None else self.ignore_index
            found.append(Raster("masks", "mask", self.mask_dtype, fill))
        if self.targets:
            found.append(Raster("targets", "target", np.dtype(np.float32), np.nan))
        return found

    @property
    def series(self) -> list[str]:
        """Date columns of modalities that are series."""
        return [one.stored.dates for one in self.images if one.stored.dates is not None]

    @property
    def rows(self) -> int:
        """Samples per chunk of the store: about 6 MB."""
        size = sum(math.prod(one.shape) * one.dtype.itemsize for one in self.images)
        return max(1, CHUNK_BYTES // size)

    def as_json(self) -> dict:
        images = [
            {
                "stored": one.stored.as_json(),
                "dates": one.dates,
                "height": one.height,
                "width": one.width,
                "dtype": one.dtype.str,
            }
            for one in self.images
        ]
        return {
            "images": images,
            "mask_dtype": None if self.mask_dtype is None else self.mask_dtype.str,
            "ignore_index": self.ignore_index,
            "targets": self.targets,
        }

    @classmethod
    def from_json(cls, content: dict) -> Layout:
        """The inverse of `as_json`."""
        images = [
            Images(
                **{
                    **one,
                    "stored": StoredModality.from_json(one["stored"]),
                    "dtype": np.dtype(one["dtype"]),
                }
            )
            for one in content["images"]
        ]
        dtype = content["mask_dtype"]
        mask_dtype = None if dtype is None else np.dtype(dtype)
        return cls(**{**content, "images": tuple(images), "mask_dtype": mask_dtype})

    def holding(self, shapes: Sequence[Sequence[int]]) -> Layout:
        """The same, enlarged if necessary to hold images of these shapes, one per modality."""
        pairs = zip(self.images, shapes, strict=True)
        return replace(self, images=tuple(one.holding(shape) for one, shape in pairs))


class SplitWriter:
    """Consumes the batches of one split or a part of it: writes pixels, keeps other results.

    Once an image is larger than the layout or unusable, no more pixels are written, but all images
    are still read: the caller gets all failures, and a sufficient layout in `needed`.

    Parameters
    ----------
    count : samples of the whole split.
    span : first and last + 1 of the expected samples; None for all.
    alone : whether the arrays have rows for these samples only.
    """

    def __init__(
        self,
        layout: Layout,
        classes: int,
        count: int,
        span: tuple[int, int] | None = None,
        *,
        alone: bool = False,
    ) -> None:
        self.layout = self.needed = layout
        self.count, self.span, self.alone = count, span or (0, count), alone
        self.failures: list[Failure] = []
        self.found = Findings(layout, classes, count, span)

    @property
    def fits(self) -> bool:
        return not self.failures and self.needed == self.layout

    def write(self, store: StoreWriter, chunks: Iterable[list[DecodedBatch]], tick) -> None:
        """Write the samples; calls `tick(n)` to report progress."""
        layout = self.layout
        # the first part creates the arrays of a split, even without samples
        if self.span[0] == self.span[1]:
            return
        (start, stop), first = self.span, self.span[0] if self.alone else 0
        arrays = make_arrays(store, layout, stop - first if self.alone else self.count)
        start -= first
        for batches in chunks:
            number = sum(len(batch.positions) for batch in batches)
            for batch in batches:
                self._remember(batch)
            if self.fits:
                decoded = [one for batch in batches for one in batch.decoded]
                rows = slice(start, start + number)
                kind: Images | Raster
                for place, kind in enumerate(layout.images):
                    arrays[kind.stored.array][rows] = padded(
                        [one.arrays[place] for one in decoded], kind.shape, kind.dtype, 0
                    )
                for kind in layout.rasters:
                    arrays[kind.array][rows] = padded(
                        [getattr(one, kind.of) for one in decoded],
                        layout.size,
                        kind.dtype,
                        kind.fill,
                    )
            start += number
            tick(number)

    def _remember(self, batch: DecodedBatch) -> None:
        self.failures += batch.failures
        for shapes in {tuple(array.shape for array in one.arrays) for one in batch.decoded}:
            self.needed = self.needed.holding(shapes)
        # results are only used if all samples are valid
        if not self.failures:
            self.found.add(batch)


def make_arrays(store: StoreWriter, layout: Layout, count: int) -> dict:
    """Create the pixel arrays of a store for `count` samples, by name."""
    shapes = {one.stored.array: (one.shape, one.dtype) for one in layout.images}
    shapes |= {one.array: (layout.size, one.dtype) for one in layout.rasters}
    return {
        name: store.array(name, (count, *shape), dtype, rows_per_chunk=layout.rows)
        for name, (shape, dtype) in shapes.items()
    }


def write_labels(store: StoreWriter, records: Sequence[Record], task: str) -> None:
    """Write ``labels``, for tasks that label whole images."""
    if targets_of(task).dense:
        return
    labels = label_array(records, task)
    store.array("labels", labels.shape, labels.dtype, rows_per_chunk=65_536)[:] = labels


def samples_table(
    records: Sequence[Record], facts: SampleFacts, *, georeferenced: bool = False
) -> pa.Table:
    """samples.parquet of a store.

    Columns of `SAMPLES_SCHEMA`, of `GEOREFERENCE` if asked for, and of objects and windows if the
    records have objects.
    """
    blocks = range(0, len(records), _BLOCK)
    columns = {name: column.column() for name, column in facts.dates.items()}
    series = [(name, pa.list_(pa.string())) for name in columns]
    return pa.concat_tables(
        _samples(records[start : start + _BLOCK], facts, start, columns, series, georeferenced)
        for start in blocks
    )


def _samples(
    records: Sequence[Record],
    facts: SampleFacts,
    start: int,
    dates: dict[str, pa.ChunkedArray],
    series: list,
    georeferenced: bool,
) -> pa.Table:
    """The table of those records that begin with the row `start`."""
    stop = start + len(records)
    heights, widths = facts.heights[start:stop], facts.widths[start:stop]
    columns = {
        "height": heights,
        "width": widths,
        **{
            name: [getattr(record, name) for record in records]
            for name in ("sample_id", "group_id", "lon", "lat", "date")
        },
    }
    fields = list(SAMPLES_SCHEMA)
    if georeferenced:
        fields += GEOREFERENCE
        columns["crs"] = facts.crs_column(start, stop)
        columns["transform"] = facts.transform_column(start, stop)
    fields += series
    columns |= {name: column.slice(start, len(records)) for name, column in dates.items()}
    if records[0].objects is not None:
        fields += [OBJECTS, *WINDOW]
        columns |= _windows(records, list(zip(heights.tolist(), widths.tolist(), strict=True)))
    schema = pa.schema(fields)
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _windows(records: Sequence[Record], sizes: list[tuple[int, int]]) -> dict:
    """Columns of objects and windows; an uncut image is its own window."""
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


def padded(arrays: Sequence[np.ndarray], shape: tuple[int, ...], dtype, fill) -> np.ndarray:
    """Stack of arrays, each padded at the end of its axes to `shape`."""
    if all(array.shape == shape for array in arrays):
        return np.stack(arrays).astype(dtype, copy=False)
    block = np.full((len(arrays), *shape), fill, dtype)
    for row, array in enumerate(arrays):
        block[(row, *map(slice, array.shape))] = array
    return block
