"""Feature stores with maps and a number per pixel, made up, as a probe of pixels reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.core.tables import read_table

from helpers.stages.probe_jobs import run_probe
from helpers.stores.maps import FINGERPRINT, write_array_of_maps

RIDGE = {
    "kind": "dense_ridge",
    "layers": None,
    "stride": 4,
    "alpha_min": 1e-2,
    "alpha_max": 1e4,
    "alpha_count": 7,
    "choose": "validation",
    "merge_val": True,
    "standardize": True,
    "resolution": "native",
    "masks": "none",
    "pictures": 2,
}
KNN = {
    "kind": "dense_knn",
    "layer": None,
    "k": 3,
    "metric": "l2",
    "max_patches": 200_000,
    "resolution": "native",
    "boundary": None,
    "masks": "none",
    "pictures": 2,
}
USUAL = {"dense_ridge": RIDGE, "dense_knn": KNN}


def spec_of(options: dict, backbone: str = "made-up") -> dict:
    """What a stage gives a probe."""
    return {
        "stage": options["kind"],
        "dataset": "toy",
        "backbone": backbone,
        "probe": "pixels",
        "seed": 0,
        "options": options,
        "inputs": {"features": FINGERPRINT},
    }


def write_targets(
    path: Path,
    maps,
    targets,
    *,
    split="train",
    sizes=None,
    working=None,
    dtype="float32",
    backbone="made-up",
    **about,
) -> Path:
    """A store of `maps` (N, C, H, W), coarse to fine, and native `targets` (N, h, w)."""
    count = len(targets)
    sizes = np.array([targets.shape[1:]] * count if sizes is None else sizes).reshape(count, 2)
    with write_store(path, fingerprint=FINGERPRINT) as writer:
        layers = [
            write_array_of_maps(writer, i, len(maps), values, dtype, 4)
            for i, values in enumerate(maps)
        ]
        stored = writer.array("targets", targets.shape, np.float32, rows_per_chunk=4)
        if count:
            stored[:] = targets
        writer.samples(
            pa.table(
                {
                    "sample_id": [f"{split}-{i:03}" for i in range(count)],
                    "group_id": [f"group-{i // 3}" for i in range(count)],
                    "height": pa.array(sizes[:, 0], pa.int32()),
                    "width": pa.array(sizes[:, 1], pa.int32()),
                }
            )
        )
        known = targets[~np.isnan(targets)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        writer.attributes.update(
            {
                "dataset": "toy",
                "backbone": backbone,
                "split": split,
                "task": "pixel_regression",
                "classes": [],
                "target": "height",
                "layers": layers,
                "gates": [],
                "split_method": "group",
                "spatially_random": False,
                "working_size": list(working or targets.shape[1:]),
                "target_centre": 3.0,
                "target_range": [min(low, -20.0), max(high, 30.0)],
                **about,
            }
        )
    return path


def linear(count: int, *, seed=0, side=16, grids=(4, 8), channels=5, noise=0.5, gaps=0.2):
    """Maps, and targets that follow from the first one up to noise; some pixels have no data."""
    rng = np.random.default_rng(seed)
    maps = [
        (rng.normal(size=(count, channels, grid, grid)) * [[[[2.0]]]] + 7).astype(np.float32)
        for grid in grids
    ]
    weights = np.random.default_rng(99).normal(size=channels)
    cells = np.einsum("nchw,c->nhw", maps[0], weights)
    step = side // grids[0]
    targets = cells.repeat(step, axis=1).repeat(step, axis=2)
    targets = targets + noise * rng.normal(size=targets.shape)
    targets[rng.random(targets.shape) < gaps] = np.nan
    return maps, targets.astype(np.float32)


def toy_stores(folder: Path, *, counts=(12, 5, 7), **changes) -> dict[str, Path]:
    """Three stores of `linear` data."""
    stores, made = (
        {},
        {key: changes.pop(key) for key in ("grids", "noise", "gaps") if key in changes},
    )
    for i, (split, count) in enumerate(zip(("train", "val", "test"), counts, strict=True)):
        stores[split] = write_targets(
            folder / f"{split}.zarr", *linear(count, seed=i, **made), split=split, **changes
        )
    return stores


def run(
    stores, folder: Path, kind="dense_ridge", *, second_output=None, backbone="made-up", **options
):
    """Run a probe with its usual options and `options`: (table, metadata, path)."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{len(list(folder.iterdir()))}.parquet"
    run_probe(
        spec_of({**USUAL[kind], **options}, backbone),
        stores,
        output,
        device="cpu",
        second_output=second_output,
    )
    return *read_table(output, expect="0" * 32), output
