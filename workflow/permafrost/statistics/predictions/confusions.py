"""Predictions of masks, stored as one confusion matrix of pixels per image."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.segmentation import evaluate
from permafrost.statistics.predictions.columns import array_of, groups_of, need_columns, sorted_rows
from permafrost.statistics.replicates.pixels import PixelCounts

_BOUNDARY = ("boundary_intersection", "boundary_union")


@dataclass(frozen=True)
class Confusions:
    """Predictions of the task ``segmentation``; see `Predictions`.

    Attributes
    ----------
    confusion : (N, K, K) int64 pixels of each image, rows truth, columns predictions, without
        ignored pixels.
    boundaries : (intersection, union), (N, K) int64 each, or None if they were not counted.
    ignore_index : value of the masks that is not scored, or None.
    dead_classes : ids of classes excluded from means: classes that the dataset never contains, and
        the ignored value if it is a class id.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    confusion: np.ndarray
    boundaries: tuple[np.ndarray, np.ndarray] | None
    classes: list[str]
    ignore_index: int | None
    dead_classes: tuple[int, ...]

    task = "segmentation"
    rules = ()

    def __len__(self) -> int:
        return len(self.sample_ids)

    @cached_property
    def truth(self) -> np.ndarray:
        return self.confusion.sum(axis=2)

    @property
    def truth_keys(self) -> np.ndarray:
        return self.truth

    @cached_property
    def answers(self) -> np.ndarray:
        return self.confusion.sum(axis=1)

    @property
    def boundary(self) -> bool:
        return self.boundaries is not None

    @classmethod
    def from_arrays(
        cls,
        sample_ids,
        confusion,
        *,
        classes,
        groups=None,
        ignore_index: int | None = None,
        dead_classes=(),
        boundaries=None,
    ) -> Confusions:
        """From rows in any order.

        Raises
        ------
        PermafrostError : matrices that do not match the classes, negative counts, no scored pixel.
        """
        order, ids, groups = sorted_rows(sample_ids, groups)
        width = len(classes)
        confusion = _counts(confusion, (len(ids), width, width), "confusion")[order]
        if not confusion.any():
            raise PermafrostError(
                "no pixel of the test set is scored",
                remedy="check the masks of the test split and the dataset's ignore_index",
            )
        if boundaries is not None:
            boundaries = tuple(
                _counts(counts, (len(ids), width), name)[order]
                for counts, name in zip(boundaries, _BOUNDARY, strict=True)
            )
        dead = set(dead_classes)
        if ignore_index is not None and 0 <= ignore_index < width:
            dead.add(ignore_index)
        unscored = tuple(sorted(dead))
        return cls(ids, groups, confusion, boundaries, list(classes), ignore_index, unscored)

    @classmethod
    def from_table(cls, table, metadata: dict) -> Confusions:
        """From a prediction table; see `predictions_from_table`."""
        need_columns(table, ("sample_id", "confusion"))
        counted = [name for name in _BOUNDARY if name in table.column_names]
        if counted:
            need_columns(table, _BOUNDARY)
        width = len(metadata["classes"])
        confusion = array_of(table, "confusion", width * width)
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            confusion.reshape(-1, width, width),
            classes=metadata["classes"],
            groups=groups_of(table),
            ignore_index=metadata["ignore_index"],
            dead_classes=metadata["dead_classes"],
            boundaries=[array_of(table, name, width) for name in _BOUNDARY] if counted else None,
        )

    @classmethod
    def settings_from_table(cls, table, metadata: dict, count: int) -> list[Confusions]:
        """Predictions of each of `count` settings, from its part of the column
        ``setting_confusions``."""
        need_columns(table, ("sample_id", "setting_confusions"))
        names, width = table.column("sample_id").to_pylist(), len(metadata["classes"])
        counts = array_of(table, "setting_confusions", count * width * width)
        return [
            cls.from_arrays(
                names,
                confusion,
                classes=metadata["classes"],
                groups=groups_of(table),
                ignore_index=metadata["ignore_index"],
                dead_classes=metadata["dead_classes"],
            )
            for confusion in counts.reshape(len(names), count, width, width).swapaxes(0, 1)
        ]

    def evaluate(self) -> dict:
        """Every metric on the whole test set."""
        boundary = None
        if self.boundaries is not None:
            boundary = [counts.sum(axis=0) for counts in self.boundaries]
        return evaluate(
            self.confusion.sum(axis=0),
            task=self.task,
            dead_classes=self.dead_classes,
            boundary=boundary,
        )

    def family(self, units: np.ndarray) -> PixelCounts:
        """Every metric on resamples of the units."""
        return PixelCounts(
            self.confusion,
            units,
            task=self.task,
            dead_classes=self.dead_classes,
            boundaries=self.boundaries,
        )


class ChangeConfusions(Confusions):
    """Predictions of the task ``change``, whose class 0 means unchanged."""

    task = "change"


def _counts(values, shape: tuple[int, ...], name: str) -> np.ndarray:
    """`values` as int64 of this `shape`; refuse anything but pixel counts."""
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "iu" or (values < 0).any():
        raise PermafrostError(
            f"the column {name!r} of the predictions holds no counts of pixels for {shape[0]}"
            f" images and {shape[1]} classes",
            remedy="run its evaluation again",
        )
    return values.astype(np.int64, copy=False)
