"""A feature store with maps and a number per pixel, opened for a probe and checked; no torch."""

from __future__ import annotations

import numpy as np

from permafrost.probes.dense.map_splits import MapSplit

TASK = "pixel_regression"
TARGETS = "targets"


class TargetSplit(MapSplit):
    """One split: maps, targets, samples; see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with numbers per pixel",
        "this probe needs a dataset with task pixel_regression; extract it again",
    )
    truth_array = TARGETS
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
