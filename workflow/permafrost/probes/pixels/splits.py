"""A feature store with maps and a number per pixel, opened for a probe and checked; no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.probes.dense import splits as dense_splits
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.dense.splits import MapSplit

TASK = "pixel_regression"
TARGETS = "targets"


class TargetSplit(MapSplit):
    """One split: maps, targets, samples; see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with numbers per pixel",
        "this probe needs a dataset with task pixel_regression; extract it again",
    )
    answer_dtype = np.dtype(np.float32)

    def fits(self) -> bool:
        return super().fits() and TARGETS in self.store

    @property
    def centre(self) -> float:
        """A number near all targets."""
        return float(self.attributes["target_centre"])

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest target of the dataset."""
        low, high = self.attributes["target_range"]
        return float(low), float(high)

    def targets(self, start: int, stop: int, *, resolution: str = "native") -> list[np.ndarray]:
        """Targets of rows [start, stop), (h, w) each, NaN where there is no data.

        Of their true size, or for ``resolution: working`` as resized to the working size by nearest.
        """
        stored = self.store.read(TARGETS, start, stop)
        native = [
            target[:height, :width]
            for target, (height, width) in zip(stored, self.sizes[start:stop], strict=True)
        ]
        if resolution == "native":
            return native
        return [resize_mask(target, self.working_size) for target in native]

    def scored_size(self, row: int, resolution: str) -> tuple[int, int]:
        """Height and width at which an image is scored."""
        if resolution == "native":
            height, width = self.sizes[row]
            return int(height), int(width)
        return self.working_size


def open_splits(stores: dict[str, Path], *, expect: str | None = None) -> dict[str, TargetSplit]:
    """All splits of a run; refuses damaged stores and those of another plan."""
    return dense_splits.open_splits(TargetSplit, stores, expect=expect)
