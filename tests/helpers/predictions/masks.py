"""Made-up masks with their predictions, and segmentation metrics worked out the slow way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from permafrost.core.tables import write_table
from permafrost.metrics.segmentation import boundary_counts, confusion_matrix, evaluate
from permafrost.statistics.predictions.confusions import Confusions

IGNORE = 255


def masks(
    n=12, size=16, classes=5, skill=0.7, seed=0, ignored=0.1, present=None, all_ignored=(), truth=0
):
    """(N, H, W) truth and prediction in patches; only the first `present` classes are true.

    Truth and ignored pixels depend on `truth` alone, the prediction on `seed` too.
    """
    rng = np.random.default_rng([truth, n, size, classes])
    shape = (n, size // 4, size // 4)
    true = rng.integers(0, present or classes, shape).repeat(4, axis=1).repeat(4, axis=2)
    true = true.astype(np.int64)
    hidden = rng.random(true.shape) < ignored
    hidden[list(all_ignored)] = True
    rng = np.random.default_rng([seed, n, size, classes])
    guess = np.where(rng.random(true.shape) < skill, true, rng.integers(0, classes, true.shape))
    true[hidden] = IGNORE
    return true, guess


def confusions(truth, prediction, classes):
    """(N, K, K) confusion matrices of the images."""
    pairs = zip(truth, prediction, strict=True)
    return np.stack([confusion_matrix(t, p, classes, IGNORE) for t, p in pairs])


def boundaries(truth, prediction, classes, ratio=0.05):
    """(intersection, union), (N, K) each."""
    pairs = zip(truth, prediction, strict=True)
    counts = [boundary_counts(t, p, classes, ratio, IGNORE) for t, p in pairs]
    return tuple(np.stack(each) for each in zip(*counts, strict=True))


def predictions(case=None, *, groups=None, dead_classes=(), boundary=False, classes=5, ids=None):
    """The container that statistics read, of the masks that `case` asks for."""
    truth, prediction = masks(**{"classes": classes, **(case or {})})
    ids = [f"image {i:04}" for i in range(len(truth))] if ids is None else ids
    return Confusions.from_arrays(
        ids,
        confusions(truth, prediction, classes),
        classes=[f"class {i}" for i in range(classes)],
        groups=groups,
        ignore_index=IGNORE,
        dead_classes=dead_classes,
        boundaries=boundaries(truth, prediction, classes) if boundary else None,
    )


def naive_replicates(truth, prediction, counts, units, *, classes, dead_classes=(), ratio=None):
    """Every metric from the pixels of each resample, images repeated as they were drawn."""
    found = []
    for resample in counts.T.astype(int):
        rows = np.repeat(np.arange(len(units)), resample[units])
        boundary = None
        if ratio is not None:
            boundary = (
                [
                    each.sum(axis=0)
                    for each in boundaries(truth[rows], prediction[rows], classes, ratio)
                ]
                if len(rows)
                else None
            )
        confusion = confusion_matrix(truth[rows], prediction[rows], classes, IGNORE)
        found.append(evaluate(confusion, dead_classes=dead_classes, boundary=boundary))
    return {name: np.stack([values[name] for values in found], axis=-1) for name in found[0]}


def fixed_lists(values) -> pa.Array:
    values = np.asarray(values).reshape(len(values), -1)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def metadata(**change) -> dict:
    """The metadata of a segmentation probe's table."""
    return {
        "fingerprint": "made",
        "stage": "segmentation",
        "dataset": "demo-segments",
        "backbone": "resnet18",
        "probe": "fpn",
        "seed": 0,
        "kind": "segmentation",
        "task": "segmentation",
        "classes": [f"class {i}" for i in range(5)],
        "n_train": 40,
        "n_val": 10,
        "n_test": 12,
        "feature_dim": 960,
        "settings": {
            "head": "fpn",
            "parameters": 1234,
            "layers": ["layer4", "layer1"],
            "learning_rate": 1e-3,
            "epoch": 10,
            "epochs_log": [{"epoch": 1, "train_loss": 1.0}],
            "loss": "torch.nn.CrossEntropyLoss",
            "precision": "fp32",
        },
        "gates": ["spatially_random"],
        "options": {},
        "backbone_fingerprint": "backbone",
        "split_method": "group",
        "spatially_random": False,
        "ignore_index": IGNORE,
        "dead_classes": [],
        "resolution": "native",
        "layers": ["layer4", "layer1"],
        "head": "fpn",
    } | change


def prediction_table(found: Confusions) -> pa.Table:
    """The rows that a segmentation probe writes."""
    count = len(found)
    columns = {
        "sample_id": pa.array(found.sample_ids.tolist(), pa.string()),
        "group_id": pa.array(
            [None] * count if found.groups is None else list(found.groups), pa.string()
        ),
        "confusion": fixed_lists(found.confusion),
        "shown": pa.array(["drawn", *[None] * (count - 1)], pa.string()),
        "mask": pa.array([b"png", *[None] * (count - 1)], pa.binary()),
    }
    if found.boundaries is not None:
        for name, counts in zip(
            ("boundary_intersection", "boundary_union"), found.boundaries, strict=True
        ):
            columns[name] = fixed_lists(counts)
    return pa.table(columns)


def write_predictions(path, found: Confusions, **change) -> dict:
    """Write the table of a segmentation probe; returns its metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = metadata(dead_classes=list(found.dead_classes), **change)
    write_table(path, prediction_table(found), written)
    return written
