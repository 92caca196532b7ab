"""All images that a derived dataset may have: their records, hashes and samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from permafrost.core.leakage import LEAK, UNIT
from permafrost.core.rows_store import Parent, Selection
from permafrost.core.tasks import targets_of
from permafrost.data.labels.objects import Objects, objects_of
from permafrost.data.records import Record
from permafrost.data.store.image_hashes import ImageHashes, hash_images
from permafrost.data.store.image_store import ImageStore

#: bytes of images that are in memory at the same time
_BYTES = 64_000_000


@dataclass(frozen=True)
class Pool:
    """Images of the parents.

    Attributes
    ----------
    parents, stores : the stores that they are in.
    parent, row : (N,) number of the store of each image, and its row there.
    records, hashes, samples : of each image.
    classes : of the labels.
    left_out : number of images of other classes, by dataset.
    """

    parents: list[Parent]
    stores: list[ImageStore]
    parent: np.ndarray
    row: np.ndarray
    records: list[Record]
    hashes: ImageHashes
    samples: pa.Table
    classes: list[str]
    left_out: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        parents: list[Parent],
        stores: list[ImageStore],
        task: str,
        classes: list[str],
        *,
        several: bool,
    ) -> Pool:
        """All images of the stores; with `several`, the names of datasets are before those of images and groups."""
        tables, records, parts = [], [], []
        for parent, store in zip(parents, stores, strict=True):
            table = _named(store.samples, f"{parent.dataset}/" if several else "")
            tables.append(table)
            records += _records(table, store, task)
            parts.append(_hashes(store))
        counts = [len(store) for store in stores]
        return cls(
            parents,
            stores,
            np.repeat(np.arange(len(stores)), counts),
            np.concatenate([np.arange(count) for count in counts]),
            records,
            ImageHashes(
                *(
                    np.concatenate([getattr(one, name) for one in parts])
                    for name in ImageHashes.__annotations__
                )
            ),
            pa.concat_tables(tables, promote_options="default"),
            classes,
        )

    def of(self, splits: Sequence[str], dataset: str) -> np.ndarray:
        """Positions of the images that are in these splits of a dataset."""
        chosen = [
            number
            for number, one in enumerate(self.parents)
            if one.dataset == dataset and one.split in splits
        ]
        return np.flatnonzero(np.isin(self.parent, chosen))

    def select(self, rows: np.ndarray, folds: np.ndarray | None = None) -> Selection:
        return Selection(self.parent[rows], self.row[rows], folds)

    def take(self, rows: np.ndarray) -> list[Record]:
        return [self.records[row] for row in rows]

    def hashes_of(self, rows: np.ndarray) -> ImageHashes:
        return ImageHashes(
            *(getattr(self.hashes, name)[rows] for name in ImageHashes.__annotations__)
        )


def _named(samples: pa.Table, before: str) -> pa.Table:
    """The table without what refers to other splits; images and groups with a text before their names."""
    kept = samples.drop_columns([key for key in (UNIT, LEAK) if key in samples.column_names])
    for name in ("sample_id", "group_id") if before else ():
        values = [None if one is None else before + one for one in kept[name].to_pylist()]
        place = kept.column_names.index(name)
        kept = kept.set_column(place, name, pa.array(values, pa.string()))
    return kept


def _records(samples: pa.Table, store: ImageStore, task: str) -> list[Record]:
    columns = {
        name: samples[name].to_pylist()
        for name in ("sample_id", "group_id", "lon", "lat", "date", "image_id")
        if name in samples.column_names
    }
    labels: Sequence = [None] * len(samples)
    stored = store.labels()
    if stored is not None:
        labels = [tuple(one) if isinstance(one, list) else one for one in stored.tolist()]
    objects: Sequence[Objects | None] = [None] * len(samples)
    if targets_of(task).objects:
        objects = objects_of(samples["objects"])
    return [
        Record(label=label, objects=found, **dict(zip(columns, values, strict=True)))
        for label, found, *values in zip(labels, objects, *columns.values(), strict=True)
    ]


def _hashes(store: ImageStore) -> ImageHashes:
    """Hashes of all images of a store, as those of `prepare`."""
    made = ImageHashes.empty(len(store))
    sizes = [(*store.sizes(one), store.date_counts(one)) for one in store.modalities]
    values = sum(int(np.prod(store.store.shape(one.array)[1:])) for one in store.modalities)
    together = max(1, _BYTES // max(1, values * store.dtype.itemsize))
    for start in range(0, len(store), together):
        stop = min(start + together, len(store))
        arrays = [store.store.read(one.array, start, stop) for one in store.modalities]
        samples = []
        for row in range(stop - start):
            images = []
            for one, array, (heights, widths, dates) in zip(
                store.modalities, arrays, sizes, strict=True
            ):
                image = array[row][..., : heights[start + row], : widths[start + row]]
                images.append(image if one.dates is None else image[: dates[start + row]])
            samples.append(images)
        made.put(start, hash_images(samples))
    return made


def rasters(pool: Pool, rows: np.ndarray, array: str) -> Iterator[np.ndarray]:
    """The masks or targets of images, at their true sizes."""
    for place in rows:
        number, row = int(pool.parent[place]), int(pool.row[place])
        store = pool.stores[number]
        raster = store.store.read(array, row, row + 1)[0]
        yield raster[: store.heights[row], : store.widths[row]]
