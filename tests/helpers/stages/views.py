"""Augmented views of tiny datasets, and what the stages that make and measure them are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import fingerprint
from permafrost.core.stores import Store, write_store
from permafrost.core.tables import read_table
from permafrost.features.specification import Running
from permafrost.features.views import extract_views
from permafrost.statistics.measures.feature_measures import measure_features

from helpers.stages.specifications import extraction_of, specification

OPTIONS = {
    "views": 4,
    "images": 1000,
    "crop_scale": [0.2, 1.0],
    "flips": True,
    "rotations": True,
    "photometric": {"gain": 0.2, "offset": 0.2},
    "seed": 0,
}
# nothing is changed
STILL = {"crop_scale": [1.0, 1.0], "flips": False, "rotations": False, "photometric": None}
VIEWS = fingerprint("views")
FEATURES = fingerprint("features")
#: of what `image_cases.Dataset` extracts
EXTRACTED = "fingerprint-of-features"
MEASURING = {
    "split": "train",
    "max_rows": 10_000,
    "seed": 0,
    "names": None,
    "augmentations": {"delta": 1e-4},
    "bootstrap": {"resamples": 60, "confidence": 0.9, "seed": 0},
}


def make_views(
    dataset,
    entry: dict,
    *,
    out="views.zarr",
    split="train",
    extraction=None,
    running=None,
    **options,
) -> Store:
    """Run the stage on an `image_cases.Dataset`; `options` are those of augmentations."""
    spec = {
        "stage": "views",
        "backbone": "tried",
        "dataset": "tiny",
        "entry": entry,
        "extraction": extraction_of(**(extraction or {})),
        "files": {},
        "split": split,
        "augmentations": {**OPTIONS, **options},
        "inputs": {"images": "fingerprint-of-images"},
    }
    extract_views(
        specification(spec),
        images={name: dataset.folder / f"{name}.zarr" for name in ("train", "val", "test")},
        card=dataset.folder / "card.json",
        output=dataset.folder / out,
        fingerprint=VIEWS,
        running=Running(**(running or {"device": "cpu"})),
    )
    return Store(dataset.folder / out, expect=VIEWS)


def write_both(folder: Path, views, *, drawn_from=None, groups=None, fingerprint=VIEWS):
    """Stores of features and views as the stages leave them."""
    views = np.asarray(views, np.float32)
    names = [f"sample {i:02}" for i in range(len(views))]
    groups = pa.array([None] * len(views) if groups is None else groups, pa.string())
    about = {
        "task": "classification",
        "gates": [],
        "split_method": "given",
        "spatially_random": False,
    }
    for name, values, made in (
        ("embeddings", views[:, 0], FEATURES),
        ("views", views, fingerprint),
    ):
        with write_store(folder / f"{name}.zarr", fingerprint=made) as writer:
            writer.array(name, values.shape, values.dtype, rows_per_chunk=8)[:] = values
            writer.samples(pa.table({"sample_id": names, "group_id": groups}))
            writer.attributes.update(
                about,
                augmentations={**OPTIONS, "views": views.shape[1]},
                drawn_from=drawn_from or len(views),
            )
    return folder / "embeddings.zarr", folder / "views.zarr"


def measure_views(
    features: Path,
    views: Path | None,
    output: Path,
    *,
    backbone="tried",
    dataset="tiny",
    made=FEATURES,
    **options,
) -> dict[str, dict]:
    """Rows of the stage ``measure`` by name of the measure; `made` is the features' fingerprint."""
    spec = {
        "stage": "measure",
        "dataset": dataset,
        "backbone": backbone,
        "options": MEASURING | options,
        "inputs": {"features": made, "views": VIEWS},
    }
    measure_features(
        features, output, views=views, spec=specification(spec), fingerprint=fingerprint("measured")
    )
    return {row["metric"]: row for row in read_table(output)[0].to_pylist()}
