"""Feature stores as extraction leaves them, and what the measuring stages are told of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import fingerprint
from permafrost.core.stores import write_store
from permafrost.metrics.representation import Measure, measures
from permafrost.statistics.measures.feature_measures import measure_features
from permafrost.statistics.measures.similarities import compare_features

from helpers.stages.specifications import specification

OPTIONS = {
    "split": "train",
    "max_rows": 10_000,
    "seed": 0,
    "names": None,
    "bootstrap": {"resamples": 60, "confidence": 0.9, "seed": 0},
}
FINGERPRINT = fingerprint("features")


def mixture(rows: int = 90, dimensions: int = 12, classes: int = 3, seed: int = 0):
    """Features and labels of overlapping classes, of which each has its own centre."""
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    centres = generator.normal(size=(classes, dimensions))
    scales = np.arange(1, dimensions + 1) ** -0.5
    features = generator.normal(size=(rows, dimensions)) * scales + centres[labels]
    return features.astype(np.float32), labels


def write_features(
    path: Path, features, labels=None, *, task="classification", groups=None, ids=None, **attributes
) -> Path:
    """A feature store of one split."""
    count = len(features)
    with write_store(path, fingerprint=FINGERPRINT) as writer:
        array = writer.array("embeddings", features.shape, features.dtype, rows_per_chunk=32)
        array[:] = features
        if labels is not None:
            labels = np.asarray(labels)
            writer.array("labels", labels.shape, labels.dtype, rows_per_chunk=64)[:] = labels
        ids = [f"sample {i:04}" for i in range(count)] if ids is None else ids
        groups = [None] * count if groups is None else groups
        writer.samples(
            pa.table({"sample_id": ids, "group_id": pa.array(groups, pa.string())}),
        )
        writer.attributes.update(
            {"task": task, "gates": [], "split_method": "given", "spatially_random": False}
            | attributes
        )
    return path


def measure(path: Path, output: Path, *, backbone: str = "net", dataset: str = "demo", **options):
    """Run the stage ``measure`` on a store; returns its line for the log."""
    spec = {
        "stage": "measure",
        "dataset": dataset,
        "backbone": backbone,
        "options": OPTIONS | options,
        "inputs": {"features": FINGERPRINT},
    }
    return measure_features(
        path, output, spec=specification(spec), fingerprint=fingerprint("measured")
    )


def pair(folder: Path, output: Path, backbones, *, dataset: str = "demo", **options):
    """Run the stage ``similarity`` on ``{folder}/{dataset}/{backbone}/{split}.zarr``."""
    spec = {
        "stage": "similarity",
        "dataset": dataset,
        "options": OPTIONS | options,
        "inputs": {"features": dict.fromkeys(backbones, FINGERPRINT)},
    }
    return compare_features(
        folder, output, spec=specification(spec), fingerprint=fingerprint("paired")
    )


def measure_of(name: str, features, labels=None, *, units=None) -> Measure:
    """The measure `name` of all rows of the features, without the others."""
    found = measures(features, labels, seed=0, max_rows=len(features), units=units, names=[name])
    return found[name]
