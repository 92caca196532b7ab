"""Feature stores as the arrays that probes work on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.stores import Store
from permafrost.features.dates import OverDates, date_counts, reduction_of
from permafrost.probes.job import ProbeJob


@dataclass(frozen=True)
class Features:
    """Embeddings of one split.

    Attributes
    ----------
    embeddings : (N, K) float32; (N, T, K) for a probe that is given all dates of series.
    labels : (N,) int64 class ids, (N, L) uint8 for multi-label, or (N,) float64 numbers.
    samples : one row per sample: ``sample_id``, ``group_id``, …
    attributes : what the feature store recorded of backbone, dataset and input.
    """

    embeddings: np.ndarray
    labels: np.ndarray
    samples: pa.Table
    attributes: dict

    @property
    def task(self) -> str:
        return self.attributes["task"]

    @property
    def classes(self) -> list[str]:
        return self.attributes["classes"]


def read_features(
    paths: dict[str, Path], *, expect: str | None = None, over: OverDates | None = None
) -> dict[str, Features]:
    """Read the feature stores of all splits; refuses damaged stores and those of another plan."""
    return {split: _read(path, expect, split, over) for split, path in paths.items()}


def on_embeddings(
    probe: Callable, *, seed_of: tuple[str, ...] = ("dataset", "backbone", "probe", "seed")
) -> Callable:
    """What a job runs: a probe on the embeddings of its feature stores, whose table it writes.

    Parameters
    ----------
    probe : ``probe(splits, options, device=, seed=)``; what it returns has ``write(job, splits)``.
    seed_of : attributes of the job that the seed follows from.
    """

    def run(job: ProbeJob) -> None:
        splits = read_features(job.stores, expect=job.features, over=job.over_dates)
        seed = derive_seed(*(getattr(job, name) for name in seed_of))
        probe(splits, job.options, device=job.device, seed=seed).write(job, splits)

    return run


def check_splits(splits: dict[str, Features], *, where: str) -> None:
    """Refuse what nothing can be learned from or asked about: no train or test sample, NaN, infinity.

    Validation may be empty: whoever needs it says so.
    """
    for name, split in splits.items():
        if not len(split.embeddings) and name != "val":
            raise PermafrostError(
                f"{name} has no sample", where=where, remedy=f"give the dataset a {name} split"
            )
        finite = np.isfinite(split.embeddings)
        bad = np.flatnonzero(~finite.all(axis=tuple(range(1, finite.ndim))))
        if bad.size:
            raise PermafrostError(
                f"{bad.size} of {len(split.embeddings)} rows hold NaN or infinity, first row {bad[0]}",
                where=f"{where}, {name} features",
                remedy="check the backbone's weights, its input normalisation and its precision",
            )


def class_gates(labels: np.ndarray, task: str, n_classes: int) -> list[str]:
    """``class_missing_in_train:ID`` for every class without a sample in `labels`."""
    if task == "multilabel":
        counts = np.asarray(labels, dtype=np.int64).sum(axis=0)
    else:
        counts = np.bincount(labels, minlength=n_classes)
    return [f"class_missing_in_train:{class_id}" for class_id in np.flatnonzero(counts == 0)]


def _read(path: Path, expect: str | None, split: str, over: OverDates | None) -> Features:
    store = Store(path, expect=expect, split=split)
    over = reduction_of(over, store.attributes, where=path)
    embeddings, samples = store.read("embeddings").astype(np.float32, copy=False), store.samples()
    if over is not None:
        embeddings = over(embeddings, date_counts(samples, store.attributes))
    if not np.isfinite(embeddings).all():
        rows = np.flatnonzero(~np.isfinite(embeddings.reshape(len(embeddings), -1)).all(axis=1))
        raise PermafrostError(
            f"{len(rows)} embeddings hold NaN or infinity (first: row {rows[0]})",
            where=path,
            remedy="look at the backbone's weights and normalisation, then extract again",
        )
    return Features(embeddings, store.read("labels"), samples, store.attributes)
