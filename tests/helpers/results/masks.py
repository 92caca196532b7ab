"""Synthetic segmentation results in the shape that the stages write: card, images, masks, tables."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import fingerprint
from permafrost.core.stores import write_store
from permafrost.core.tables import read_table, write_table
from permafrost.metrics.segmentation import boundary_counts, confusion_matrix
from permafrost.statistics.scores.score_table import score_predictions
from PIL import Image

from helpers.results.tables import _lists, make_card, write_card
from helpers.stages.specifications import specification

CLASSES = ["building", "road", "water"]
IGNORE = 255
OPTIONS = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
KINDS = {"fpn": "segmentation", "linear-head": "segmentation", "dense-knn": "dense_knn"}


def make_dense_card(dataset: str = "town", *, images: int = 12, classes=tuple(CLASSES)) -> dict:
    card = make_card(
        dataset, task="segmentation", classes=len(classes), bands=3, counts=(40, 20, images)
    )
    for split in card["splits"].values():
        split["class_counts"] = [1_234_567, 200_000, 0][: len(classes)] + [9] * (len(classes) - 3)
    return {**card, "classes": list(classes), "ignore_index": IGNORE, "dead_classes": []}


def truth_of(card: dict, index: int, size: int = 16) -> np.ndarray:
    """Vertical stripes of the classes with an ignored corner."""
    columns = np.arange(size) * len(card["classes"]) // size
    mask = (
        np.broadcast_to((columns + index) % len(card["classes"]), (size, size))
        .astype(np.uint8)
        .copy()
    )
    mask[:4, :4] = IGNORE
    return mask


def make_dense_store(path: Path, card: dict, *, size: int = 16) -> Path:
    """Test images (flat colours) and true masks; the last image is smaller, so it is padded."""
    count = card["splits"]["test"]["count"]
    images = np.random.default_rng(0).integers(0, 3000, (count, 3, size, size)).astype(np.uint16)
    truth = np.stack([truth_of(card, index, size) for index in range(count)])
    sides = pa.array([size] * (count - 1) + [size - 2], pa.int32())
    with write_store(path, fingerprint=fingerprint("images", card["dataset"])) as writer:
        writer.array("images", images.shape, np.uint16, rows_per_chunk=8)[:] = images
        writer.array("masks", truth.shape, np.uint8, rows_per_chunk=8)[:] = truth
        writer.samples(pa.table({"sample_id": names_of(card), "height": sides, "width": sides}))
    return path


def names_of(card: dict) -> list[str]:
    return [f"{card['dataset']}-{i:03d}" for i in range(card["splits"]["test"]["count"])]


def make_dense_predictions(
    path: Path,
    card: dict,
    *,
    backbone: str,
    probe: str = "fpn",
    seed: int = 0,
    wrong: float = 0.2,
    size: int = 16,
    pictures: int = 3,
    boundary: bool = False,
    gates=(),
) -> dict:
    """Write a table in which a share `wrong` of the pixels has another class; return its metadata."""
    count, classes = card["splits"]["test"]["count"], len(card["classes"])
    random = np.random.default_rng([seed, len(backbone), len(probe), int(1000 * wrong)])
    truths, masks = [], []
    for index in range(count):
        side = size - 2 if index == count - 1 else size
        truth = truth_of(card, index, size)[:side, :side]
        flip = random.random(truth.shape) < wrong * (index + 1) / count
        guess = np.where(truth == IGNORE, 0, (truth + flip) % classes)
        truths.append(truth)
        masks.append(guess.astype(np.uint8))
    confusion = np.stack(
        [confusion_matrix(t, m, classes, IGNORE) for t, m in zip(truths, masks, strict=True)]
    )
    shown: list[str | None] = [None] * count
    if pictures:
        shown[1 : 1 + pictures] = ["drawn"] * pictures
        shown[0], shown[-1] = "best", "worst"
    columns = {
        "sample_id": pa.array(names_of(card)),
        "group_id": pa.array([f"tile{i // 3}" for i in range(count)]),
        "confusion": _lists(confusion.reshape(count, -1), pa.int64()),
        "shown": pa.array(shown, pa.string()),
        "mask": pa.array(
            [png(m) if s else None for m, s in zip(masks, shown, strict=True)], pa.binary()
        ),
    }
    if boundary:
        bands = [
            boundary_counts(t, m, classes, 0.05, IGNORE) for t, m in zip(truths, masks, strict=True)
        ]
        for i, name in enumerate(("boundary_intersection", "boundary_union")):
            columns[name] = _lists(np.stack([band[i] for band in bands]), pa.int64())
    kind = KINDS[probe]
    metadata = {
        "fingerprint": fingerprint("predictions", card["dataset"], backbone, probe, seed),
        "stage": kind,
        "dataset": card["dataset"],
        "backbone": backbone,
        "probe": probe,
        "kind": kind,
        "seed": seed,
        "task": "segmentation",
        "classes": card["classes"],
        "ignore_index": IGNORE,
        "dead_classes": [],
        "resolution": "native",
        "layers": ["layer4", "layer3"],
        "head": "fpn" if kind == "segmentation" else None,
        "n_train": 40,
        "n_val": 20,
        "n_test": count,
        "feature_dim": 96,
        "split_method": card["split_method"],
        "spatially_random": False,
        "settings": training_settings(wrong)
        if kind == "segmentation"
        else {"k": 5, "metric": "l2"},
        "gates": list(gates),
        "options": {"kind": kind},
        "backbone_fingerprint": fingerprint("features", card["dataset"], backbone),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, pa.table(columns), metadata)
    return {**metadata, "path": path}


def training_settings(wrong: float, epochs: int = 4) -> dict:
    log = [
        {
            "epoch": e,
            "learning_rate": 1e-3,
            "train_loss": 1 / e + wrong,
            "val_loss": 1.2 / e + wrong,
            "val_mean_iou": 0.9 - wrong - 0.2 / e,
        }
        for e in range(1, epochs + 1)
    ]
    return {
        "head": "fpn",
        "parameters": 1234,
        "layers": ["layer4", "layer3"],
        "working_size": [16, 16],
        "learning_rate": 1e-3,
        "epoch": epochs,
        "epochs_log": log,
        "grid": [],
        "loss": "cross-entropy",
        "precision": "fp32",
    }


def png(mask: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(mask).save(buffer, format="PNG")
    return buffer.getvalue()


def score(path: Path, made: dict) -> pa.Table:
    """The scores of a table of predictions, as the stage makes them."""
    spec = {
        "stage": "bootstrap",
        "dataset": made["dataset"],
        "options": OPTIONS,
        "inputs": {"predictions": made["fingerprint"]},
    }
    score_predictions(made["path"], path, spec=specification(spec), fingerprint="s")
    return read_table(path)[0]


def prepare_dense(
    tmp_path: Path,
    card: dict,
    *,
    backbones: dict[str, float],
    probes: dict[str, list[int]],
    **options,
) -> tuple[dict, list[pa.Table]]:
    """Cards, predictions and scores of `backbones` (name -> share of wrong pixels) and `probes` (-> seeds)."""
    predictions, tables = {}, []
    for number, (backbone, wrong) in enumerate(backbones.items()):
        for probe, seeds in probes.items():
            for seed in seeds:
                path = tmp_path / f"{number}/{probe}/{seed}.parquet"
                made = make_dense_predictions(
                    path,
                    card,
                    backbone=backbone,
                    probe=probe,
                    seed=seed,
                    wrong=wrong + 0.02 * seed,
                    **options,
                )
                predictions[card["dataset"], backbone, seed, probe] = path
                tables.append(score(tmp_path / "scores.parquet", made))
    return {
        "cards": {card["dataset"]: write_card(tmp_path / "card.json", card)},
        "predictions": predictions,
    }, tables
