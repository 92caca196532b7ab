"""Read feature stores as arrays for probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.row_file import BLOCK_BYTES, RowFile
from permafrost.core.stores import Store
from permafrost.core.targets import Targets
from permafrost.core.tasks import targets_of
from permafrost.features.dates import OverDates, date_counts, reduction_of
from permafrost.features.stored import open_features
from permafrost.probes.embeddings.arithmetic import bad_rows
from permafrost.probes.job import ProbeJob

#: how a probe runs on folds; imported, and part of a job's code, only for a derived dataset
POOLING = {"folds": "permafrost.probes.embeddings.folds:run_on_folds"}
FOLDS = "folds"
#: embeddings of a split with more bytes stay on disk, for probes that can stream them
HELD_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Features:
    """Embeddings of one split.

    Attributes
    ----------
    embeddings : (N, K) float32; (N, T, K) for a probe that uses all dates of series. A `RowFile` if they are
        large and the probe streams.
    labels : (N,) int64 class ids, (N, L) uint8 for multi-label, or (N,) float64 numbers.
    samples : one row per sample: ``sample_id``, ``group_id``, …
    attributes : the feature store's record of backbone, dataset and input.
    folds : (N, F) bool, whether a sample is in this split of each fold; None without folds.
    """

    embeddings: np.ndarray | RowFile
    labels: np.ndarray
    samples: pa.Table
    attributes: dict
    folds: np.ndarray | None = None

    @property
    def task(self) -> str:
        return self.attributes["task"]

    @property
    def targets(self) -> Targets:
        return targets_of(self.task)

    @property
    def classes(self) -> list[str]:
        return self.attributes["classes"]


def read_features(
    paths: dict[str, Path],
    *,
    expect: str | None = None,
    over: OverDates | None = None,
    scratch: Path | None = None,
) -> dict[str, Features]:
    """Read the feature stores of all splits; refuses damaged stores and those of another plan.

    Parameters
    ----------
    over : how features of several dates are combined.
    scratch : folder for a temporary copy of embeddings larger than `HELD_BYTES`; None: all are
        kept in memory.
    """
    return {split: _read(path, expect, split, over, scratch) for split, path in paths.items()}


def on_embeddings(
    probe: Callable,
    *,
    seed_of: tuple[str, ...] = ("dataset", "backbone", "probe", "seed"),
    streams: bool = False,
) -> Callable:
    """Make the function of a job: it runs a probe on the embeddings of its feature stores and writes the table.

    Parameters
    ----------
    probe : ``probe(splits, options, device=, seed=)``; its result has ``write(job, splits)``.
    seed_of : attributes of the job from which the seed is derived.
    streams : the probe accepts a `RowFile` of embeddings, with the same result as for an array.
    """

    def run(job: ProbeJob) -> None:
        scratch = job.output.parent if streams else None
        splits = read_features(
            job.stores, expect=job.features, over=job.over_dates, scratch=scratch
        )
        seed = job.seed_from(*seed_of)
        asked = {"device": job.device, "seed": seed}
        if splits["test"].folds is None:
            probe(splits, job.options, **asked).write(job, splits)
            return
        module, _, name = POOLING["folds"].partition(":")
        getattr(import_module(module), name)(probe, job, splits, asked)

    return run


def check_splits(splits: dict[str, Features], *, where: str) -> None:
    """Refuse splits without train or test samples, NaN and infinity.

    Validation may be empty: probes that need it check this.
    """
    for name, split in splits.items():
        if not len(split.embeddings) and name != "val":
            raise PermafrostError(
                f"{name} has no sample", where=where, remedy=f"give the dataset a {name} split"
            )
        bad = bad_rows(split.embeddings)
        if bad.size:
            raise PermafrostError(
                f"{bad.size} of {len(split.embeddings)} rows hold NaN or infinity, first row {bad[0]}",
                where=f"{where}, {name} features",
                remedy="check the backbone's weights, its input normalisation and its precision",
            )


def chosen_rows(embeddings: np.ndarray | RowFile, numbers: np.ndarray) -> np.ndarray | RowFile:
    """Rows with these indices: in memory, or in another `RowFile` if they are large and come from one."""
    width, count = embeddings.shape[1], len(numbers)
    if not isinstance(embeddings, RowFile) or count * width * 4 <= HELD_BYTES:
        return embeddings[numbers]
    chosen, step = embeddings.beside(width), max(1, BLOCK_BYTES // (4 * width))
    for start in range(0, count, step):
        chosen.append(embeddings[numbers[start : start + step]])
    return chosen


def class_gates(labels: np.ndarray, task: str, n_classes: int) -> list[str]:
    """``class_missing_in_train:ID`` for every class without a sample in `labels`."""
    counts = targets_of(task).counts(labels, n_classes)
    return [f"class_missing_in_train:{class_id}" for class_id in np.flatnonzero(counts == 0)]


def _read(
    path: Path, expect: str | None, split: str, over: OverDates | None, scratch: Path | None
) -> Features:
    store = open_features(path, expect=expect, split=split)
    samples, labels = store.samples(), store.read("labels")
    rows = StoredRows(store, samples, reduction_of(over, store.attributes, where=path))
    if scratch is None or rows.nbytes <= HELD_BYTES:
        embeddings = rows.read(0, len(store))
    else:
        scratch.mkdir(parents=True, exist_ok=True)
        embeddings = RowFile(rows.width, scratch)
        for block in rows.blocks():
            embeddings.append(rows.read(block.start, block.stop))
    folds = store.read(FOLDS).astype(bool) if FOLDS in store else None
    return Features(embeddings, labels, samples, store.attributes, folds)


class StoredRows:
    """Embeddings in a feature store, as float32, with the features of dates combined into those of samples."""

    def __init__(self, store: Store, samples: pa.Table, over: OverDates | None) -> None:
        self.store, self.over = store, over
        self.counts = None if over is None else date_counts(samples, store.attributes)
        shape = store.shape("embeddings")
        self.stored = int(np.prod(shape[1:]))
        self.width = self.stored if over is None else over.channels(shape[2], shape[1])

    @property
    def nbytes(self) -> int:
        """Size of all rows as float32, in bytes."""
        return len(self.store) * self.width * 4

    def blocks(self) -> Iterator[slice]:
        """Slices of all rows: whole chunks of the store, about `BLOCK_BYTES` each unless chunks are larger."""
        chunk = self.store.chunk_rows("embeddings")
        step = max(1, BLOCK_BYTES // max(1, self.stored * 4) // chunk) * chunk
        return (slice(i, min(i + step, len(self.store))) for i in range(0, len(self.store), step))

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows [start, stop).

        Raises
        ------
        PermafrostError : the rows contain NaN or infinity.
        """
        rows = self.store.read("embeddings", start, stop).astype(np.float32, copy=False)
        if self.over is not None:
            rows = self.over(rows, self.counts[start:stop], first=start)
        if not np.isfinite(rows).all():
            bad = np.flatnonzero(~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
            raise PermafrostError(
                f"{len(bad)} embeddings hold NaN or infinity (first: row {start + bad[0]})",
                where=self.store.path,
                remedy="check the backbone's weights and normalisation, then extract again",
            )
        return rows
