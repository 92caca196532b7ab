"""Features of small made-up datasets, and what becomes of a probe's answers on them: tables and scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import fingerprint
from permafrost.core.specification import SPLITS
from permafrost.core.tables import read_table
from permafrost.probes.embeddings.features import Features
from permafrost.statistics.scores.score_table import score_predictions

from helpers.stages.probe_jobs import configured, job_of
from helpers.stages.specifications import specification

SCORING = {"resamples": 50, "confidence": 0.95, "method": "percentile", "seed": 0}


def make_splits(
    *,
    task: str = "classification",
    counts=(60, 30, 40),
    classes: int = 4,
    width: int = 8,
    skill: float = 1.0,
    seed: int = 0,
    groups=None,
) -> dict[str, Features]:
    """Three splits of points around a centre per class, `skill` times as far apart as they are wide.

    Parameters
    ----------
    groups : of the test samples, or None where none is known.
    """
    rng = np.random.default_rng([seed, classes])
    centres = rng.normal(size=(classes, width))
    splits = {}
    for split, count in zip(SPLITS, counts, strict=True):
        labels = rng.permutation(np.arange(count) % classes)
        if task == "multilabel":
            labels = (rng.random((count, classes)) < 0.3).astype(np.uint8)
            labels[np.arange(count), np.arange(count) % classes] = 1
        places = labels @ centres if task == "multilabel" else centres[labels]
        embeddings = rng.normal(size=(count, width)) + skill * places
        own = groups if split == "test" and groups is not None else [None] * count
        samples = pa.table(
            {
                "sample_id": [f"{split} {number:03d}" for number in range(count)],
                "group_id": pa.array(own, pa.string()),
            }
        )
        attributes = {
            "task": task,
            "classes": [f"class {number}" for number in range(classes)],
            "split_method": "given",
            "spatially_random": False,
            "gates": [],
        }
        splits[split] = Features(embeddings.astype(np.float32), labels, samples, attributes)
    return splits


def write_and_score(
    folder: Path, result, splits, *, kind: str, backbone: str = "net", options: dict | None = None
):
    """((predictions, their metadata), scores) of what a probe found, as its stages write them."""
    path, scores = folder / f"{backbone}.parquet", folder / f"{backbone}-scores.parquet"
    spec = {
        "stage": kind,
        "dataset": "made",
        "backbone": backbone,
        "probe": kind.replace("_", "-"),
        "seed": 0,
        "options": configured(kind, **(options or {})),
        "inputs": {"features": fingerprint("features", backbone)},
    }
    made = fingerprint("predictions", backbone)
    result.write(job_of(spec, output=path, fingerprint=made), splits)
    spec = {
        "stage": "bootstrap",
        "dataset": "made",
        "options": SCORING,
        "inputs": {"predictions": made},
    }
    score_predictions(
        path, scores, spec=specification(spec), fingerprint=fingerprint("scores", backbone)
    )
    return read_table(path), read_table(scores)[0]
