"""A feature store with maps and masks, opened for a segmentation probe and checked; no torch."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.dense.map_splits import MapSplit

MASKS = "masks"
ROWS_AT_A_TIME = 64


class MaskSplit(MapSplit):
    """One split: maps, masks, samples; see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with masks",
        "segmentation probes need a dataset with task segmentation; extract it again",
    )
    truth_array = MASKS

    def fits(self) -> bool:
        return super().fits() and MASKS in self.store

    @property
    def ignore_index(self) -> int | None:
        return self.attributes.get("ignore_index")

    @property
    def dead_classes(self) -> list[int]:
        return list(self.attributes.get("dead_classes") or [])

    @property
    def mask_dtype(self) -> np.dtype:
        """Of stored masks."""
        return np.dtype(self.attributes["arrays"][MASKS][1])

    @property
    def answer_dtype(self) -> np.dtype:
        """Of predicted masks."""
        return np.dtype(np.uint8 if len(self.classes) <= 256 else np.uint16)

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
            for row, mask in enumerate(self.truths(start, stop), start):
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


def mask_gates(splits: dict[str, MaskSplit]) -> list[str]:
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
