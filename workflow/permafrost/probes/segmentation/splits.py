"""A feature store with maps, opened for a segmentation probe and checked; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.stores import Store

from .interpolate import resize_mask

MASKS = "masks"
ROWS_AT_A_TIME = 64


@dataclass(frozen=True)
class Layer:
    """The map of one layer: its name, its array in the store, and (C, H, W)."""

    name: str
    array: str
    channels: int
    height: int
    width: int

    @property
    def size(self) -> tuple[int, int]:
        return self.height, self.width


class MapSplit:
    """One split: maps, masks, samples.

    Parameters
    ----------
    path : the feature store.
    expect : fingerprint of the plan; a store of another plan is refused.
    """

    def __init__(self, path: Path, *, expect: str | None = None) -> None:
        self.store = Store(path, expect=expect)
        self.attributes: dict = self.store.attributes
        self.samples: pa.Table = self.store.samples()
        if "layers" not in self.attributes or MASKS not in self.store:
            raise PermafrostError(
                "the store holds no maps of layers with masks",
                where=path,
                remedy="segmentation probes need a dataset with task segmentation; extract it again",
            )

    def __len__(self) -> int:
        return len(self.store)

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def classes(self) -> list[str]:
        return self.attributes["classes"]

    @property
    def ignore_index(self) -> int | None:
        return self.attributes.get("ignore_index")

    @property
    def dead_classes(self) -> list[int]:
        return list(self.attributes.get("dead_classes") or [])

    @property
    def working_size(self) -> tuple[int, int]:
        height, width = self.attributes["working_size"]
        return int(height), int(width)

    @cached_property
    def layers(self) -> list[Layer]:
        """All layers of the store, coarse to fine."""
        keys = ("name", "array", "channels", "height", "width")
        return [Layer(*(entry[key] for key in keys)) for entry in self.attributes["layers"]]

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N, 2) true height and width of every image and mask; what lies beyond is padding."""
        columns = [self.samples[name].to_numpy() for name in ("height", "width")]
        return np.stack(columns, axis=1).astype(np.int64)

    def choose_layers(self, names: list[str] | None, *, where: object) -> list[Layer]:
        """The layers of these names in the order given; all of them for None."""
        if names is None:
            return self.layers
        known = {layer.name: layer for layer in self.layers}
        for name in names:
            if name not in known:
                raise PermafrostError(
                    f"there is no map of layer {name!r}",
                    where=where,
                    remedy=f"name layers that were extracted: {near_names(name, known)}",
                )
        return [known[name] for name in names]

    def native_masks(self, start: int, stop: int) -> list[np.ndarray]:
        """The masks of rows [start, stop), each of its true size."""
        stored = self.store.read(MASKS, start, stop)
        return [
            mask[:height, :width]
            for mask, (height, width) in zip(stored, self.sizes[start:stop], strict=True)
        ]

    def working_masks(self, start: int, stop: int) -> np.ndarray:
        """(n, *working size): masks resized by nearest where their images were resized."""
        stored = self.store.read(MASKS, start, stop)
        sizes, target = self.sizes[start:stop], self.working_size
        if (sizes == target).all():
            return np.ascontiguousarray(stored[:, : target[0], : target[1]])
        out = np.empty((stop - start, *target), stored.dtype)
        for mask, (height, width), row in zip(stored, sizes, out, strict=True):
            row[:] = resize_mask(mask[:height, :width], target)
        return out

    def pixel_counts(self) -> np.ndarray:
        """(K,) number of pixels of each class over the split, at native resolution.

        Raises
        ------
        PermafrostError : a mask value that is neither a class nor the ignore value.
        """
        classes, counts = len(self.classes), np.zeros(len(self.classes), np.int64)
        for start in range(0, len(self), ROWS_AT_A_TIME):
            stop = min(start + ROWS_AT_A_TIME, len(self))
            for row, mask in enumerate(self.native_masks(start, stop), start):
                counts += self._count(mask, row, classes)
        return counts

    def _count(self, mask: np.ndarray, row: int, classes: int) -> np.ndarray:
        if mask.dtype in (np.uint8, np.uint16):
            found = np.bincount(mask.reshape(-1))
            values = np.flatnonzero(found)
            found = found[values]
        else:
            values, found = np.unique(mask, return_counts=True)
        scored = values != self.ignore_index  # everywhere, where nothing is ignored
        foreign = values[scored & ((values < 0) | (values >= classes))]
        if len(foreign):
            raise PermafrostError(
                f"the mask of sample {self.samples['sample_id'][row].as_py()!r} holds"
                f" {foreign[:5].tolist()}, neither a class below {classes} nor the ignore value"
                f" {self.ignore_index}",
                where=self.path,
                remedy="declare the value as ignore_index or as a class in the dataset's entry,"
                " then prepare the dataset again",
            )
        out = np.zeros(classes, np.int64)
        out[values[scored].astype(np.int64)] = found[scored]
        return out


def open_splits(stores: dict[str, Path], *, expect: str | None = None) -> dict[str, MapSplit]:
    """All splits of a run; refuses damaged stores and those of another plan."""
    return {name: MapSplit(path, expect=expect) for name, path in stores.items()}


def mask_gates(splits: dict[str, MapSplit]) -> list[str]:
    """``class_missing_in_train:ID`` for every class without a pixel in train, dead ones aside.

    Raises
    ------
    PermafrostError : a mask of any split holds a foreign value; or no train mask has a pixel that is
        not ignored.
    """
    counts = {name: split.pixel_counts() for name, split in splits.items()}
    train = splits["train"]
    if not counts["train"].any():
        raise PermafrostError(
            "every pixel of every train mask is ignored, so there is nothing to learn from",
            where=train.path,
            remedy="check ignore_index and the class values in the dataset's entry",
        )
    missing = set(np.flatnonzero(counts["train"] == 0).tolist()) - {*train.dead_classes}
    # a class that is ignored is not missing
    missing.discard(train.ignore_index)
    return [f"class_missing_in_train:{class_id}" for class_id in sorted(missing)]
