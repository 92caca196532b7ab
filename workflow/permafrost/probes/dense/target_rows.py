"""Predicted numbers of pixels as the table that statistics and reports read; no torch.

Of a raster, sums are kept from which R², RMSE and MAE of any set of images follow.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from permafrost.probes.dense.interpolate import bilinear_matrix
from permafrost.probes.dense.shown import encode_raster
from permafrost.probes.dense.tables import ImageRows, Outcome, write_dense_table
from permafrost.probes.dense.target_splits import TargetSplit
from permafrost.probes.job import ProbeJob

COLUMNS = {
    "pixels": pa.int64(),
    **dict.fromkeys(
        (
            "squared_error",
            "absolute_error",
            "truth",
            "truth_squares",
            "truth_min",
            "truth_max",
            "prediction_min",
            "prediction_max",
        ),
        pa.float64(),
    ),
}
BINS = 48


class TargetRows(ImageRows[TargetSplit]):
    """The rows of the table; pictures are rated by their RMSE, those with a scored pixel."""

    picture, encode = "raster", encode_raster

    def __init__(self, test: TargetSplit, job: ProbeJob, put) -> None:
        super().__init__(test, job, put)
        self.sums: list[dict] = []
        self.histogram = np.zeros((BINS, BINS), np.int64)

    def add(self, first: int, grids: np.ndarray) -> None:
        """The next images, from row `first` on: what was predicted for their patches, (n, gh, gw)."""
        truths = self.truths(first, first + len(grids))
        for row, (truth, grid) in enumerate(zip(truths, grids, strict=True), start=first):
            prediction = enlarged(grid, self.size(row))
            sums = image_sums(truth, prediction, self.test.centre)
            self.sums.append(sums)
            self.histogram += joint_histogram(truth, prediction, self.test.range)
            pixels = sums["pixels"]
            rmse = np.sqrt(sums["squared_error"] / pixels) if pixels else None
            self.shown.offer(row, None if rmse is None else -rmse, prediction)
            self.put(row, prediction.astype(np.float32))

    def write(self, job: ProbeJob, splits: dict[str, TargetSplit], outcome: Outcome) -> None:
        """Write the table, one row per test image."""
        scores = {
            name: pa.array([sums[name] for sums in self.sums], kind)
            for name, kind in COLUMNS.items()
        }
        write_dense_table(
            job,
            splits,
            pa.table(self.columns(len(self.sums), scores)),
            outcome,
            centre=self.test.centre,
            resolution=self.options.resolution,
            # pixels by true (rows) and predicted number, in equal bins over the range of the targets
            histogram={"range": list(self.test.range), "counts": self.histogram.tolist()},
        )


def enlarged(grid: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(gh, gw) predictions of patches -> (h, w) float64, bilinear as `dense.interpolate.resize_bilinear`."""
    rows, columns = (bilinear_matrix(*pair) for pair in zip(grid.shape, size, strict=True))
    return rows @ np.asarray(grid, np.float64) @ columns.T


def image_sums(truth: np.ndarray, prediction: np.ndarray, centre: float) -> dict[str, float]:
    """Sums over the pixels of an image that have data, truth being counted from `centre`.

    ``pixels``, ``squared_error``, ``absolute_error``, ``truth``, ``truth_squares``; and the ranges
    ``truth_min``, ``truth_max``, ``prediction_min``, ``prediction_max`` (None without such a pixel).
    """
    known = ~np.isnan(truth)
    true = truth[known].astype(np.float64)
    said = prediction[known]
    error, true_from = said - true, true - centre
    ranges = {"truth": true, "prediction": said}
    return {
        "pixels": len(true),
        "squared_error": float(np.sum(error**2)),
        "absolute_error": float(np.sum(np.abs(error))),
        "truth": float(np.sum(true_from)),
        "truth_squares": float(np.sum(true_from**2)),
        **{f"{name}_min": float(v.min()) if len(v) else None for name, v in ranges.items()},
        **{f"{name}_max": float(v.max()) if len(v) else None for name, v in ranges.items()},
    }


def joint_histogram(
    truth: np.ndarray, prediction: np.ndarray, limits: tuple[float, float]
) -> np.ndarray:
    """(BINS, BINS) int64 pixels by true (rows) and predicted number; what lies beyond counts in the outermost."""
    known = ~np.isnan(truth)
    low, high = limits
    places = [
        np.clip((values[known] - low) / (high - low) * BINS, 0, BINS - 1).astype(np.int64)
        for values in (truth.astype(np.float64), prediction)
    ]
    return np.bincount(places[0] * BINS + places[1], minlength=BINS**2).reshape(BINS, BINS)
