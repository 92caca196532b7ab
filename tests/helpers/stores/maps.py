"""Feature stores with maps, made up; those with masks, as a segmentation probe reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.stores import write_store
from permafrost.core.tables import read_table

from helpers.stages.probe_jobs import run_probe

FINGERPRINT = "f" * 32
SEGMENTATION = {
    "kind": "segmentation",
    "head": "linear",
    "layers": None,
    "hidden": 8,
    "epochs": 2,
    "batch_size": 8,
    "learning_rate": 0.01,
    "weight_decay": 0.0,
    "schedule": "cosine",
    "min_learning_rate": 1e-6,
    "loss": {"name": "torch.nn.CrossEntropyLoss", "arguments": {}},
    "select": "last",
    "precision": "fp32",
    "resolution": "native",
    "boundary": None,
    "masks": "none",
    "pictures": 2,
}
DENSE_KNN = {
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


def spec(options: dict, seed=0, *, backbone="made-up", probe="seg") -> dict:
    """What a stage gives a probe of maps. What the probe draws follows from its name, too."""
    return {
        "stage": options["kind"],
        "dataset": "toy",
        "backbone": backbone,
        "probe": probe,
        "seed": seed,
        "options": options,
        "inputs": {"features": FINGERPRINT},
    }


def write_maps(
    path: Path,
    maps: list[np.ndarray],
    masks: np.ndarray,
    *,
    sizes=None,
    working=None,
    classes: int = 3,
    ignore_index: int | None = 255,
    dead_classes=(),
    split: str = "train",
    task: str = "segmentation",
    extra: dict | None = None,
    rows_per_chunk: int = 4,
    dtype="float16",
) -> Path:
    """A store of `maps` (N, C, H, W), coarse to fine, and native `masks` (N, h, w)."""
    return write_pixels(
        path,
        maps,
        {"masks": masks},
        sizes=sizes,
        extra=extra,
        dtype=dtype,
        rows_per_chunk=rows_per_chunk,
        split=split,
        task=task,
        classes=[f"class {i}" for i in range(classes)],
        working_size=list(working or masks.shape[1:]),
        ignore_index=ignore_index,
        dead_classes=list(dead_classes),
    )


def write_pixels(path: Path, maps, pixels: dict, *, split: str, sizes, extra=None, **how) -> Path:
    """A store of `maps` and of one array of native `pixels` (name -> (N, h, w)); `sizes` as of `write_maps`."""
    ((name, values),) = pixels.items()
    count = len(values)
    sizes = np.array([values.shape[1:]] * count if sizes is None else sizes).reshape(count, 2)
    columns = {
        "sample_id": [f"{split}-{i}" for i in range(count)],
        "group_id": [f"group-{i // 3}" for i in range(count)],
        "height": pa.array(sizes[:, 0], pa.int32()),
        "width": pa.array(sizes[:, 1], pa.int32()),
        **(extra or {}),
    }
    return write_samples_of_maps(path, maps, columns, arrays={name: values}, split=split, **how)


def write_samples_of_maps(
    path: Path, maps, columns: dict, *, dtype, rows_per_chunk=4, arrays=None, **attributes
) -> Path:
    """A store of `maps` (N, C, H, W), coarse to fine, with the samples' `columns` and what is said of it."""
    with write_store(path, fingerprint=FINGERPRINT) as writer:
        layers = [
            _write_layer(writer, i, len(maps), values, dtype, rows_per_chunk)
            for i, values in enumerate(maps)
        ]
        for name, values in (arrays or {}).items():
            stored = writer.array(name, values.shape, values.dtype, rows_per_chunk=rows_per_chunk)
            if len(values):
                stored[:] = values
        writer.samples(pa.table(columns))
        about = {"dataset": "toy", "backbone": "made-up", "layers": layers, "gates": []}
        writer.attributes.update(about | attributes)
    return path


def _write_layer(writer, i: int, count: int, values, dtype, rows_per_chunk: int) -> dict:
    """The `i`-th of `count` arrays of maps, and what the store's attributes say of its layer."""
    array = writer.array(
        f"map{i}",
        values.shape,
        dtype,
        rows_per_chunk=rows_per_chunk,
        rows_per_shard=2 * rows_per_chunk,
        compress=False,
    )
    if len(values):
        array[:] = values.astype(dtype)
    _, channels, height, width = values.shape
    return {
        "name": f"layer{count - i}",
        "array": f"map{i}",
        "channels": channels,
        "height": height,
        "width": width,
    }


def separable(count: int, *, seed: int = 0, side: int = 16, classes: int = 3, grids=(4, 8)):
    """Maps whose first channels say which class a cell has, and masks of blocks of 4 x 4 pixels."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, classes, (count, side // 4, side // 4))
    masks = cells.repeat(4, axis=1).repeat(4, axis=2).astype(np.uint8)
    maps = []
    for grid in grids:
        step = side // grid
        seen = masks[:, step // 2 :: step, step // 2 :: step]
        channels = np.eye(classes + 2)[seen].transpose(0, 3, 1, 2)
        maps.append((3 * channels + 0.3 * rng.normal(size=channels.shape)).astype(np.float32))
    return maps, masks


def toy_stores(folder: Path, *, counts=(24, 8, 10), grids=(4, 8), **changes) -> dict[str, Path]:
    """Three stores of separable maps."""
    stores = {}
    for i, (split, count) in enumerate(zip(("train", "val", "test"), counts, strict=True)):
        maps, masks = separable(count, seed=i, grids=grids)
        stores[split] = write_maps(folder / f"{split}.zarr", maps, masks, split=split, **changes)
    return stores


def run(stores, folder, *, seed=0, device="cpu", memory=None, second_output=None, **options):
    """Train and score a head with `SEGMENTATION` and `options`: (table, metadata)."""
    how = {"device": device, "memory": memory, "second_output": second_output}
    return run_spec(spec({**SEGMENTATION, **options}, seed), stores, folder, **how)[:2]


def run_spec(given: dict, stores, folder: Path, **how) -> tuple:
    """Run the probe with this spec; its table is the next file of `folder`: (table, metadata, path)."""
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / f"{len(list(folder.iterdir()))}.parquet"
    run_probe(given, stores, output, **how)
    return *read_table(output, expect="0" * 32), output


def confusion(table, classes=3):
    """(N, K, K) of a table of predictions."""
    flat = table["confusion"].combine_chunks().flatten().to_numpy()
    return flat.reshape(len(table), classes, classes)
