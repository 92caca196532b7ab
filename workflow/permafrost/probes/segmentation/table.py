"""Predictions of a segmentation probe as the table that statistics and reports read; no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.metrics.segmentation.boundary import boundary_counts
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.dense.splits import Layer
from permafrost.probes.metadata import prediction_metadata
from permafrost.probes.segmentation.shown import Shown
from permafrost.probes.segmentation.splits import MaskSplit


@dataclass(frozen=True)
class Outcome:
    """What a probe found besides masks: settings (JSON-able), gates, layers used, head (None: none)."""

    layers: list[Layer]
    settings: dict
    gates: list[str]
    head: str | None = None


@dataclass
class TestRows:
    """The rows of the table, gathered image by image in store order."""

    # pytest would take the name for a test
    __test__ = False

    test: MaskSplit
    options: dict
    shown: Shown
    put_mask: object
    confusion: list[np.ndarray] = field(default_factory=list)
    boundary: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    def truths(self, start: int, stop: int) -> list[np.ndarray]:
        """The masks that are scored: native ones, or as resized to the working size."""
        masks = self.test.native_masks(start, stop)
        if self.options["resolution"] == "native":
            return masks
        return [resize_mask(mask, self.test.working_size) for mask in masks]

    def size(self, row: int) -> tuple[int, int]:
        """Height and width at which an image is scored."""
        if self.options["resolution"] == "native":
            height, width = self.test.sizes[row]
            return int(height), int(width)
        return self.test.working_size

    def add(self, truth: np.ndarray, prediction: np.ndarray, confusion: np.ndarray) -> None:
        """The next image: truth and prediction (h, w), and their (K, K) confusion matrix."""
        row = len(self.confusion)
        self.confusion.append(confusion)
        ratio = self.options["boundary"]
        if ratio is not None:
            classes, ignored = len(self.test.classes), self.test.ignore_index
            self.boundary.append(boundary_counts(truth, prediction, classes, ratio, ignored))
        self.shown.offer(row, confusion, prediction)
        self.put_mask(row, prediction)

    def table(self) -> pa.Table:
        """One row per test image."""
        if len(self.confusion) != len(self.test):
            raise RuntimeError(f"{len(self.confusion)} of {len(self.test)} test images came")
        samples, chosen, classes = self.test.samples, self.shown.chosen(), len(self.test.classes)
        rows = range(len(self.test))
        columns = {
            "sample_id": samples["sample_id"].cast(pa.string()),
            "group_id": samples["group_id"].cast(pa.string()),
            "confusion": _fixed(self.confusion, classes * classes),
            "shown": pa.array([chosen.get(row, (None, None))[0] for row in rows], pa.string()),
            "mask": pa.array([chosen.get(row, (None, None))[1] for row in rows], pa.binary()),
        }
        if self.options["boundary"] is not None:
            for i, name in enumerate(("boundary_intersection", "boundary_union")):
                columns[name] = _fixed([counts[i] for counts in self.boundary], classes)
        return pa.table(columns)


def _fixed(rows: list[np.ndarray], width: int) -> pa.Array:
    flat = np.stack(rows).reshape(-1) if rows else np.empty(0)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.astype(np.int64)), width)


def write_segmentation(
    path: Path,
    table: pa.Table,
    outcome: Outcome,
    *,
    splits: dict[str, MaskSplit],
    spec: dict,
    fingerprint: str,
    **further,
) -> None:
    """Write the table with what identifies and explains it; `further` goes into the metadata."""
    test = splits["test"]
    metadata = prediction_metadata(
        test.attributes,
        spec=spec,
        fingerprint=fingerprint,
        counts={name: len(split) for name, split in splits.items()},
        feature_dim=sum(layer.channels for layer in outcome.layers),
        settings=outcome.settings,
        gates=outcome.gates,
    )
    own = {
        "ignore_index": test.ignore_index,
        "dead_classes": test.dead_classes,
        "resolution": spec["options"]["resolution"],
        "working_size": test.attributes["working_size"],
        "head": outcome.head,
        "layers": [layer.name for layer in outcome.layers],
    }
    write_table(path, table, {**metadata, **own, **further})
