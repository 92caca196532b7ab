"""Dense nearest neighbours of numbers: a patch is given the mean target of the train patches nearest to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.probes.dense.patches import choose_layer, drawn, features_of, nearest
from permafrost.probes.dense.splits import Layer
from permafrost.probes.pixels.patches import patch_means
from permafrost.probes.pixels.shown import ShownRasters
from permafrost.probes.pixels.splits import TargetSplit, open_splits
from permafrost.probes.pixels.table import TestRows, write_pixels
from permafrost.probes.segmentation.masks import masks_writer


def run_dense_numbers(
    stores: dict[str, Path],
    output: Path,
    *,
    spec: dict,
    fingerprint: str,
    device: str = "auto",
    second_output: Path | None = None,
) -> None:
    """Search the train patches for every test patch and write the test predictions.

    Parameters as `segmentation.dense_knn.run_dense_knn`; of its options, ``boundary`` is of masks alone.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    splits = open_splits(stores, expect=spec["inputs"]["features"])
    train, test, options = splits["train"], splits["test"], spec["options"]
    where = f"{spec['probe']} on {spec['dataset']}, backbone {spec['backbone']}"
    layer = choose_layer(train, options["layer"], where)
    seed = derive_seed(spec["dataset"], spec["backbone"], spec["probe"], spec["seed"])
    features, targets, available = train_targets(train, layer, options["max_patches"], seed)
    if len(targets) < options["k"]:
        raise PermafrostError(
            f"k = {options['k']} neighbours of {len(targets)} train patches with data",
            where=where,
            remedy="choose a smaller k, or a layer with a larger map",
        )
    shown = ShownRasters(len(test), options["pictures"], spec["dataset"])
    with masks_writer(
        options["masks"],
        second_output,
        test=test,
        resolution=options["resolution"],
        fingerprint=fingerprint,
    ) as put:
        rows = TestRows(test, options, shown, put)
        for start, stop, found in nearest(
            features, test, layer, options, resolve_device(device, "faiss"), where
        ):
            said = targets[found].mean(axis=1)
            rows.add(start, said.reshape(stop - start, *layer.size))
        settings = {
            "k": options["k"],
            "metric": options["metric"],
            "layers": [layer.name],
            "working_size": list(train.working_size),
            "patches": len(targets),
            "patches_available": available,
        }
        write_pixels(
            output,
            rows,
            layers=[layer],
            settings=settings,
            gates=[],
            splits=splits,
            spec=spec,
            fingerprint=fingerprint,
        )


def train_targets(
    train: TargetSplit, layer: Layer, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Features (n, C) float32 and targets (n,) of at most `most` patches with data, and how many there are."""
    means = np.empty((len(train), *layer.size))
    step = max(1, train.store.chunk_rows(layer.array))
    for start in range(0, len(train), step):
        targets = train.targets(start, min(start + step, len(train)))
        for row, target in enumerate(targets, start):
            means[row], _ = patch_means(target, layer.size)
    means = means.reshape(-1)
    found = np.flatnonzero(~np.isnan(means))
    chosen = drawn(found, most, seed)
    return features_of(train, layer, chosen), means[chosen], len(found)
