"""Predictions of a probe of numbers per pixel as the table that statistics and reports read; no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.probes.dense.splits import Layer
from permafrost.probes.metadata import prediction_metadata
from permafrost.probes.pixels.scoring import BINS, enlarged, image_sums, joint_histogram
from permafrost.probes.pixels.shown import ShownRasters
from permafrost.probes.pixels.splits import TargetSplit

COLUMNS = {
    "pixels": pa.int64(),
    **dict.fromkeys(
        ("squared_error", "absolute_error", "truth", "truth_squares", "truth_min", "truth_max",
         "prediction_min", "prediction_max"), pa.float64()
    ),
}  # fmt: skip


@dataclass
class TestRows:
    """The rows of the table, gathered image by image in store order.

    Parameters
    ----------
    put : ``put(row, raster)``, which keeps what was predicted; see `segmentation.masks`.
    """

    # pytest would take the name for a test
    __test__ = False

    test: TargetSplit
    options: dict
    shown: ShownRasters
    put: object
    sums: list[dict] = field(default_factory=list)
    histogram: np.ndarray = field(default_factory=lambda: np.zeros((BINS, BINS), np.int64))

    def add(self, first: int, grids: np.ndarray) -> None:
        """The next images, from row `first` on: what was predicted for their patches, (n, gh, gw)."""
        resolution = self.options["resolution"]
        truths = self.test.targets(first, first + len(grids), resolution=resolution)
        for row, (truth, grid) in enumerate(zip(truths, grids, strict=True), start=first):
            prediction = enlarged(grid, self.test.scored_size(row, resolution))
            sums = image_sums(truth, prediction, self.test.centre)
            self.sums.append(sums)
            self.histogram += joint_histogram(truth, prediction, self.test.range)
            pixels = sums["pixels"]
            rmse = np.sqrt(sums["squared_error"] / pixels) if pixels else None
            self.shown.offer(row, rmse, prediction)
            self.put(row, prediction.astype(np.float32))

    def table(self) -> pa.Table:
        """One row per test image."""
        if len(self.sums) != len(self.test):
            raise RuntimeError(f"{len(self.sums)} of {len(self.test)} test images came")
        samples, chosen = self.test.samples, self.shown.chosen()
        rows = range(len(self.test))
        return pa.table(
            {
                "sample_id": samples["sample_id"].cast(pa.string()),
                "group_id": samples["group_id"].cast(pa.string()),
                **{
                    name: pa.array([sums[name] for sums in self.sums], kind)
                    for name, kind in COLUMNS.items()
                },
                "shown": pa.array([chosen.get(row, (None, None))[0] for row in rows], pa.string()),
                "raster": pa.array([chosen.get(row, (None, None))[1] for row in rows], pa.binary()),
            }
        )


def write_pixels(
    path: Path,
    rows: TestRows,
    *,
    layers: list[Layer],
    settings: dict,
    gates: list[str],
    splits: dict[str, TargetSplit],
    spec: dict,
    fingerprint: str,
) -> None:
    """Write the table with what identifies and explains it."""
    test = splits["test"]
    metadata = prediction_metadata(
        test.attributes,
        spec=spec,
        fingerprint=fingerprint,
        counts={name: len(split) for name, split in splits.items()},
        feature_dim=sum(layer.channels for layer in layers),
        settings=settings,
        gates=gates,
    )
    own = {
        "centre": test.centre,
        "resolution": spec["options"]["resolution"],
        "working_size": test.attributes["working_size"],
        "layers": [layer.name for layer in layers],
        # pixels by true (rows) and predicted number, in equal bins over the range of the targets
        "histogram": {"range": list(test.range), "counts": rows.histogram.tolist()},
    }
    write_table(path, rows.table(), {**metadata, **own})
