"""Feature stores with maps and a number per pixel, made up, as a probe of pixels reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.stores.maps import DENSE_KNN, run_spec, spec, write_pixels

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
USUAL = {"dense_ridge": RIDGE, "dense_knn": DENSE_KNN}


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
    known = targets[~np.isnan(targets)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    about = {
        "classes": [],
        "target": "height",
        "split_method": "group",
        "spatially_random": False,
        "working_size": list(working or targets.shape[1:]),
        "target_centre": 3.0,
        "target_range": [min(low, -20.0), max(high, 30.0)],
        **about,
    }
    return write_pixels(
        path,
        maps,
        {"targets": targets.astype(np.float32)},
        sizes=sizes,
        dtype=dtype,
        split=split,
        backbone=backbone,
        task="pixel_regression",
        **about,
    )


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
    stores = {}
    made = {key: changes.pop(key) for key in ("grids", "noise", "gaps") if key in changes}
    for i, (split, count) in enumerate(zip(("train", "val", "test"), counts, strict=True)):
        stores[split] = write_targets(
            folder / f"{split}.zarr", *linear(count, seed=i, **made), split=split, **changes
        )
    return stores


def run(
    stores, folder: Path, kind="dense_ridge", *, second_output=None, backbone="made-up", **options
):
    """Run a probe with its usual options and `options`: (table, metadata, path)."""
    given = spec({**USUAL[kind], **options}, backbone=backbone)
    return run_spec(given, stores, folder, device="cpu", second_output=second_output)
