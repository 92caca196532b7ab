"""Results of decoding a split besides pixels: properties of each sample, and statistics of all.

Parts of a split write their own, which are later merged in the order of the samples.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from permafrost.data.bands.in_order import Moments, Pieces, Total
from permafrost.data.bands.statistics import BandStatistics
from permafrost.data.labels.targets import TargetStatistics
from permafrost.data.store.sample_facts import SampleFacts

if TYPE_CHECKING:
    from permafrost.data.store.stream import DecodedBatch
    from permafrost.data.store.writing import Layout

FACTS, STATISTICS = "facts.parquet", "statistics.npz"


class Findings:
    """Decoding results for the samples of a split, or of a part of it.

    Parameters
    ----------
    count : samples of the split.
    span : first and last + 1 of a part; None for all.

    Attributes
    ----------
    statistics : of the bands of each modality; empty if batches are not measured.
    pixel_counts : (K + 1,) labelled pixels of each class, then the ignored ones.
    targets : statistics of the rasters of numbers.
    """

    def __init__(
        self, layout: Layout, classes: int, count: int, span: tuple[int, int] | None = None
    ) -> None:
        first, last = span or (0, count)
        bands = [len(one.stored.bands) for one in layout.images]
        nothing = TargetStatistics()
        if span is None:
            self.statistics = [BandStatistics(one) for one in bands]
            self.targets: Pieces[TargetStatistics] = Total(nothing)
        else:
            self.statistics = [BandStatistics.piece(one, first) for one in bands]
            self.targets = Pieces(nothing, first)
        self.samples = SampleFacts(last - first, layout.series)
        self.pixel_counts = np.zeros(classes + 1, np.int64)

    def add(self, batch: DecodedBatch) -> None:
        """Append the samples of a batch."""
        self.samples.add(batch.decoded, batch.hashes)
        if batch.statistics is not None:
            for whole, part in zip(self.statistics, batch.statistics, strict=True):
                whole.merge(part)
        self.pixel_counts += batch.pixel_counts
        for one in batch.targets:
            self.targets.add(one)

    def save(self, facts: Path, statistics: Path) -> None:
        """Write all to two files."""
        pq.write_table(self.samples.as_table(), facts, compression="zstd")
        arrays = {"pixel_counts": self.pixel_counts, **_of_targets(self.targets)}
        for number, one in enumerate(self.statistics):
            arrays |= {f"{number} {name}": array for name, array in _of_bands(one).items()}
        np.savez(statistics, **arrays)

    def extend(self, facts: Path, statistics: Path) -> None:
        """Append the samples of a part, from its two files."""
        self.samples.extend(pq.read_table(facts, partitioning=None))
        with np.load(statistics) as arrays:
            self.pixel_counts += arrays["pixel_counts"]
            pieces = zip(arrays["target_samples"], arrays["targets"], strict=True)
            self.targets.extend((int(samples), _targets(values)) for samples, values in pieces)
            for number, one in enumerate(self.statistics):
                begin = f"{number} "
                names = [name for name in arrays.files if name.startswith(begin)]
                _add_bands(one, {name.removeprefix(begin): arrays[name] for name in names})


def _of_targets(targets: Pieces[TargetStatistics]) -> dict[str, np.ndarray]:
    # float64 holds all possible pixel counts exactly
    values = [astuple(value) for _, value in targets]
    return {
        "target_samples": np.array([samples for samples, _ in targets], np.int64),
        "targets": np.array(values, np.float64).reshape(-1, len(fields(TargetStatistics))),
    }


def _targets(values: np.ndarray) -> TargetStatistics:
    pixels, count, empty, *others = values.tolist()
    return TargetStatistics(int(pixels), int(count), int(empty), *others)


def _of_bands(statistics: BandStatistics) -> dict[str, np.ndarray]:
    moments, kept = list(statistics.moments), statistics.sample.kept
    bands = len(statistics.low)
    found = {
        "samples": np.array([samples for samples, _ in moments], np.int64),
        "moments": np.array([[v.count, v.mean, v.squares] for _, v in moments]).reshape(
            -1, 3, bands
        ),
        "low": statistics.low,
        "high": statistics.high,
        "sample": np.array([statistics.sample.every, statistics.sample.next], np.int64),
        "kept": np.array(
            [(number, images, pixels.shape[1]) for number, images, pixels in kept], np.int64
        ).reshape(-1, 3),
    }
    if kept:
        found["pixels"] = np.concatenate([pixels for _, _, pixels in kept], axis=1)
    for band, values in enumerate(statistics.values):
        found[f"counts {band}"] = values.counts
        found[f"counted {band}"] = np.array([values.low, values.counted], np.int64)
    return found


def _add_bands(whole: BandStatistics, found: dict[str, np.ndarray]) -> None:
    """Merge the output of `_of_bands` for the samples that follow."""
    part = BandStatistics.piece(len(whole.low), whole.sample.next)
    pairs = zip(found["samples"].tolist(), found["moments"], strict=True)
    part.moments.extend((samples, Moments(*values)) for samples, values in pairs)
    part.low, part.high = found["low"], found["high"]
    for band, values in enumerate(part.values):
        low, counted = found[f"counted {band}"].tolist()
        values.low, values.counted = low, bool(counted)
        values.counts = found[f"counts {band}"]
    every, part.sample.next = found["sample"].tolist()
    part.sample.every = every
    ends = np.cumsum(found["kept"][:, 2])[:-1]
    pixels = np.split(found["pixels"], ends, axis=1) if len(found["kept"]) else []
    kept = zip(found["kept"][:, :2].tolist(), pixels, strict=True)
    part.sample.put([(number, images, one) for (number, images), one in kept])
    whole.merge(part)
