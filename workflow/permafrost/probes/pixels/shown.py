"""The predicted rasters of the test images that are shown in the report."""

from __future__ import annotations

import io
import math

import numpy as np

from permafrost.probes.dense.shown import Ranked

LONGEST = 512


def thinned(raster: np.ndarray) -> np.ndarray:
    """Every n-th pixel of a raster that has more than `LONGEST` along a side."""
    step = max(1, math.ceil(max(raster.shape) / LONGEST))
    return raster[::step, ::step]


class ShownRasters:
    """Collects the rasters to show while a test set goes by; images are rated by their RMSE."""

    def __init__(self, count: int, pictures: int, dataset: str) -> None:
        self._ranked = Ranked(count, pictures, dataset)
        self._rasters: dict[int, bytes] = {}

    def offer(self, row: int, rmse: float | None, raster: np.ndarray) -> None:
        """One image: its row, its RMSE (None where nothing is scored) and its (h, w) predictions."""
        if rmse is not None:
            self._ranked.offer(row, -rmse)
        wanted = self._ranked.wanted
        if row in wanted:
            self._rasters[row] = encode_raster(thinned(raster))
        for other in self._rasters.keys() - wanted:
            del self._rasters[other]

    def chosen(self) -> dict[int, tuple[str, bytes]]:
        """Row to (``drawn``, ``worst`` or ``best``; its raster as npy)."""
        labels = self._ranked.labels()
        return {
            row: (label, self._rasters[row])
            for row, label in labels.items()
            if row in self._rasters
        }


def encode_raster(raster: np.ndarray) -> bytes:
    """(h, w) numbers as npy of float32."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(raster, np.float32), allow_pickle=False)
    return buffer.getvalue()
