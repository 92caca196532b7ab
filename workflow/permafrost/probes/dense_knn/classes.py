"""Dense nearest neighbours: patches of a map vote for pixels; nothing is trained, no torch.

A train patch has the class of most of its pixels. The k nearest train patches of each test patch vote;
the shares of votes are resized to the scored size, and the class with the largest share is predicted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.metrics.segmentation.confusion import confusion_matrix
from permafrost.probes.dense.interpolate import resize_bilinear
from permafrost.probes.dense.patches import choose_layer, drawn, features_of, nearest
from permafrost.probes.dense.splits import Layer
from permafrost.probes.knn.search import vote
from permafrost.probes.segmentation.masks import masks_writer
from permafrost.probes.segmentation.patches import NO_LABEL, patch_labels
from permafrost.probes.segmentation.shown import Shown
from permafrost.probes.segmentation.splits import MaskSplit, mask_gates, open_splits
from permafrost.probes.segmentation.table import Outcome, TestRows, write_segmentation


def run_dense_knn(
    stores: dict[str, Path],
    output: Path,
    *,
    spec: dict,
    fingerprint: str,
    device: str = "auto",
    second_output: Path | None = None,
) -> None:
    """Search the train patches for every test patch and write the test predictions.

    Parameters as `run_segmentation`; validation is not used. `device` is that of the search.

    Raises
    ------
    PermafrostError : anything the user can put right; nothing half-written is left.
    """
    splits = open_splits(stores, expect=spec["inputs"]["features"])
    train, test, options = splits["train"], splits["test"], spec["options"]
    where = f"{spec['probe']} on {spec['dataset']}, backbone {spec['backbone']}"
    layer = choose_layer(train, options["layer"], where)
    gates = mask_gates(splits)
    seed = derive_seed(spec["dataset"], spec["backbone"], spec["probe"], spec["seed"])
    features, labels, available = train_patches(train, layer, options["max_patches"], seed)
    if len(labels) < options["k"]:
        raise PermafrostError(
            f"k = {options['k']} neighbours of {len(labels)} labelled train patches",
            where=where,
            remedy="choose a smaller k, or a layer with a larger map",
        )
    shown = Shown(len(test), options["pictures"], spec["dataset"])
    with masks_writer(
        options["masks"],
        second_output,
        test=test,
        resolution=options["resolution"],
        fingerprint=fingerprint,
    ) as put:
        rows = TestRows(test, options, shown, put)
        for start, stop, shares in _votes(
            features, labels, test, layer, options, resolve_device(device, "faiss"), where
        ):
            _add(rows, start, stop, shares)
        settings = {
            "k": options["k"],
            "metric": options["metric"],
            "layers": [layer.name],
            "working_size": list(train.working_size),
            "patches": len(labels),
            "patches_available": available,
        }
        outcome = Outcome([layer], settings, gates)
        write_segmentation(
            output, rows.table(), outcome, splits=splits, spec=spec, fingerprint=fingerprint
        )


def train_patches(
    train: MaskSplit, layer: Layer, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Features (n, C) float32 and classes (n,) of at most `most` labelled patches, and how many there are.

    Of more, a random choice is taken, in the order in which patches lie in the split.
    """
    labels = np.empty((len(train), layer.height, layer.width), np.int64)
    step = max(1, train.store.chunk_rows("masks"))
    for start in range(0, len(train), step):
        masks = train.native_masks(start, min(start + step, len(train)))
        for row, mask in enumerate(masks, start):
            labels[row] = patch_labels(mask, layer.size, len(train.classes), train.ignore_index)
    found = np.flatnonzero(labels.reshape(-1) != NO_LABEL)
    chosen = drawn(found, most, seed)
    return features_of(train, layer, chosen), labels.reshape(-1)[chosen], len(found)


def _votes(features, labels, test: MaskSplit, layer: Layer, options: dict, device: str, where):
    """(first row, last row + 1, shares of votes (n, K, gh, gw)) over the test split, in order."""
    classes = len(test.classes)
    for start, stop, found in nearest(features, test, layer, options, device, where):
        shares, _ = vote(found, labels, n_classes=classes, task="classification")
        grid = shares.reshape(stop - start, layer.height, layer.width, classes)
        yield start, stop, grid.transpose(0, 3, 1, 2)


def _add(rows: TestRows, start: int, stop: int, shares: np.ndarray) -> None:
    test = rows.test
    kind = np.uint8 if len(test.classes) <= 256 else np.int32
    for row, truth, share in zip(range(start, stop), rows.truths(start, stop), shares, strict=True):
        prediction = resize_bilinear(share, rows.size(row)).argmax(axis=0).astype(kind)
        confusion = confusion_matrix(truth, prediction, len(test.classes), test.ignore_index)
        rows.add(truth, prediction, confusion)
