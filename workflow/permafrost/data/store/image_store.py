"""Read an image store: the decoded pixels of one split of one dataset.

The array ``images`` has the images of a dataset, or of its first modality: (N, C, H, W), or (N, T,
C, H, W) for series, with T the most dates of a sample. Images of further modalities are in
``images_NAME``. A sample with fewer dates is padded with zeros, which are never read: the column
``dates`` (``dates_NAME``) of the samples lists the existing dates, null if unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow.compute import list_value_length

from permafrost.core.store_readers import open_store

#: columns of samples.parquet, in order
SAMPLES_SCHEMA = pa.schema(
    [
        ("sample_id", pa.string()),
        ("group_id", pa.string()),
        ("height", pa.int32()),
        ("width", pa.int32()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("date", pa.string()),
    ]
)


#: further columns if at least one image of the dataset has a georeference: ``EPSG:…`` or WKT, and
#: (a, b, c, d, e, f) with x = a·column + b·row + c and y = d·column + e·row + f
GEOREFERENCE = [("crs", pa.string()), ("transform", pa.list_(pa.float64(), 6))]


@dataclass(frozen=True)
class StoredModality:
    """Where a store has the images of one modality.

    Attributes
    ----------
    name : None if a dataset has only one.
    array : name in the store.
    bands : range of positions of its bands among all bands of the card.
    dates : column of samples.parquet that lists the dates of each series; None for single images.
    """

    name: str | None
    array: str
    bands: range
    dates: str | None

    @classmethod
    def of(cls, name: str | None, first: bool, bands: range, series: bool) -> StoredModality:
        suffix = "" if first else f"_{name}"
        return cls(name, f"images{suffix}", bands, f"dates{suffix}" if series else None)

    @classmethod
    def from_json(cls, content: dict) -> StoredModality:
        """The inverse of `as_json`."""
        return cls(**{**content, "bands": range(*content["bands"])})

    def as_json(self) -> dict:
        return {
            "name": self.name,
            "array": self.array,
            "bands": [self.bands.start, self.bands.stop],
            "dates": self.dates,
        }


@dataclass(frozen=True)
class ImageChunk:
    """Consecutive images of the first modality of a store.

    ``images`` (n, C, H, W) or (n, T, C, H, W) in the native type, zero-padded at the bottom and
    right if sizes differ; ``heights``, ``widths`` (n,) the true sizes; ``labels`` (n,) or (n, L),
    None if the store has none; ``masks`` (n, H, W) or None.
    """

    start: int
    images: np.ndarray
    labels: np.ndarray | None
    masks: np.ndarray | None
    heights: np.ndarray
    widths: np.ndarray

    def same_sizes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions in the chunk, images cropped to their common true size), one pair per size."""
        sizes = np.stack([self.heights, self.widths], axis=1)
        for height, width in np.unique(sizes, axis=0):
            where = np.flatnonzero((sizes == (height, width)).all(axis=1))
            if len(where) == len(self.images):
                yield where, self.images[..., :height, :width]
            else:
                yield where, self.images[where, ..., :height, :width]


class ImageStore:
    """One split of a dataset, opened for reading.

    Parameters
    ----------
    path : the store, e.g. ``results/images/demo-landcover/train.zarr``.
    expect, split : fingerprint of the plan, and name of the split; raises `PermafrostError` if the
        store has another one.
    """

    def __init__(self, path, *, expect: str | None = None, split: str | None = None) -> None:
        self.store = open_store(path, expect=expect, split=split)
        self.samples: pa.Table = self.store.samples()

    def __len__(self) -> int:
        return len(self.store)

    @property
    def path(self):
        return self.store.path

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(C, H, W) of the stored, padded images of the first modality."""
        return self.store.shape("images")[-3:]

    @functools.cached_property
    def modalities(self) -> list[StoredModality]:
        """Where the images of each modality are, in the order of their bands."""
        listed = self.store.attributes.get("modalities")
        if listed is None:
            return [StoredModality.of(None, True, range(self.image_shape[0]), series=False)]
        return [StoredModality.from_json(one) for one in listed]

    def date_counts(self, modality: StoredModality) -> np.ndarray:
        """(N,) number of dates of each sample in a modality; 1 for single images."""
        if modality.dates is None:
            return np.ones(len(self), np.int64)

        return list_value_length(self.samples[modality.dates]).to_numpy().astype(np.int64)

    def sizes(self, modality: StoredModality) -> tuple[np.ndarray, np.ndarray]:
        """(N,) true heights and widths of the images of a modality; they differ only in the first one."""
        if modality.array == "images":
            return self.heights, self.widths
        height, width = self.store.shape(modality.array)[-2:]
        return np.full(len(self), height), np.full(len(self), width)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.store.attributes["arrays"]["images"][1])

    @property
    def uniform(self) -> bool:
        """True if all images have the stored height and width, without padding."""
        _, height, width = self.image_shape
        return bool((self.heights == height).all() and (self.widths == width).all())

    @property
    def heights(self) -> np.ndarray:
        return self.samples["height"].to_numpy()

    @property
    def widths(self) -> np.ndarray:
        return self.samples["width"].to_numpy()

    def labels(self) -> np.ndarray | None:
        """(N,) int64 class ids, (N, L) uint8 or (N,) float64 numbers; None if pixels or objects are labelled."""
        return self.store.read("labels") if "labels" in self.store else None

    def read(self, start: int = 0, stop: int | None = None) -> ImageChunk:
        """Images [start, stop) with their sizes, labels and masks."""
        stop = len(self) if stop is None else min(stop, len(self))
        optional = {
            name: self.store.read(name, start, stop) if name in self.store else None
            for name in ("labels", "masks")
        }
        return ImageChunk(
            start=start,
            images=self.store.read("images", start, stop),
            heights=self.heights[start:stop],
            widths=self.widths[start:stop],
            **optional,
        )
