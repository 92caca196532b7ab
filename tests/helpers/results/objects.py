"""Synthetic detection results in the shape that the stages write: card, windows, objects, tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import fingerprint
from permafrost.core.stores import write_store
from permafrost.core.tables import read_table, write_table
from permafrost.data.files.windows import cut_windows
from permafrost.data.labels.objects import Objects, objects_column
from permafrost.statistics.scores.score_table import score_predictions

from helpers.results.tables import make_card, write_card
from helpers.stages.specifications import specification

CLASSES = ["broadleaf", "conifer"]
OPTIONS = {"resamples": 20, "confidence": 0.95, "method": "percentile", "seed": 0}
DETECTION = pa.struct(
    [
        ("class", pa.int32()),
        *((name, pa.float64()) for name in ("x_min", "y_min", "x_max", "y_max", "score")),
    ]
)
WIDTH, HEIGHT = 150, 110


def make_object_card(
    dataset: str = "trees",
    *,
    images: int = 8,
    classes=tuple(CLASSES),
    geometry: str = "box",
    window: int | None = 80,
) -> dict:
    task = "point_detection" if geometry == "point" else "detection"
    card = make_card(dataset, task=task, classes=len(classes), bands=3, counts=(9, 6, images))
    for split in card["splits"].values():
        split["class_counts"] = [120 + 7 * k for k in range(len(classes))]
    counts = {"images": images, "objects": 254, "empty": 1, "crowd": 2}
    return {
        **card,
        "classes": list(classes),
        "detection": {
            "geometry": geometry,
            "max_detections": 100,
            "match_distance": 6.0 if geometry == "point" else None,
            "min_visible": 0.5,
            "tiles": None if window is None else {"size": window, "overlap": 0.1},
            "splits": {split: dict(counts) for split in card["splits"]},
        },
    }


def truth_of(card: dict, index: int) -> Objects:
    """Ten crowns of an image, the last one a crowd; the first image has none."""
    random = np.random.default_rng([index, len(card["dataset"])])
    count = 0 if index == 0 else 10
    centres = random.uniform((8, 8), (WIDTH - 8, HEIGHT - 8), (count, 2))
    half = 0 if card["detection"]["geometry"] == "point" else random.uniform(5, 14, (count, 1))
    boxes = np.concatenate([centres - half, centres + half], axis=1)
    crowd = np.arange(count) == 9
    return Objects.of(boxes, random.integers(0, len(card["classes"]), count), crowd=crowd)


def names_of(card: dict) -> list[str]:
    return [f"{card['dataset']}-{i:03d}" for i in range(card["splits"]["test"]["count"])]


def pixels_of(card: dict, index: int) -> np.ndarray:
    """(3, HEIGHT, WIDTH): soil, and a bright disc for every object."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    image = np.random.default_rng(index).normal(900, 60, (3, HEIGHT, WIDTH))
    objects = truth_of(card, index)
    sides = objects.boxes[:, 2] - objects.boxes[:, 0]
    for (cx, cy), side, label in zip(objects.centres, sides, objects.classes, strict=True):
        disc = np.hypot(x - cx, y - cy) < max(side / 2, 4)
        image[:, disc] += np.array([[100, 900, 100], [300, 500, 200]][label % 2])[:, None]
    return image.clip(0, 4000).astype(np.uint16)


def make_object_store(path: Path, card: dict, *, split: str = "test") -> Path:
    """Windows of every image of the test split, one after the other, with the objects that they meet."""
    tiles, names = card["detection"]["tiles"], names_of(card)
    size, overlap = (tiles["size"], tiles["overlap"]) if tiles else (max(WIDTH, HEIGHT), 0.0)
    rows, pixels = [], []
    for index, name in enumerate(names):
        objects, image = truth_of(card, index), pixels_of(card, index)
        for window in cut_windows(WIDTH, HEIGHT, size=size, overlap=overlap):
            x0, y0, x1, y1 = window.bounds
            part = window.of(image)
            padded = np.zeros((3, min(size, HEIGHT), min(size, WIDTH)), np.uint16)
            padded[:, : part.shape[1], : part.shape[2]] = part
            pixels.append(padded)
            boxes = objects.boxes
            met = (
                (boxes[:, 0] < x1) & (boxes[:, 2] >= x0) & (boxes[:, 1] < y1) & (boxes[:, 3] >= y0)
            )
            rows.append((f"{name}#{x0},{y0}", name, x0, y0, *part.shape[1:], objects.take(met)))
    ids, images, xs, ys, heights, widths, objects = zip(*rows, strict=True)
    with write_store(path, fingerprint=fingerprint("images", card["dataset"], split)) as writer:
        array = np.stack(pixels)
        writer.array("images", array.shape, array.dtype, rows_per_chunk=4)[:] = array
        whole = [[side] * len(rows) for side in (HEIGHT, WIDTH)]
        numbers = {
            "x_offset": xs,
            "y_offset": ys,
            "height": heights,
            "width": widths,
            "image_height": whole[0],
            "image_width": whole[1],
        }
        writer.samples(
            pa.table(
                {
                    "sample_id": list(ids),
                    "image_id": list(images),
                    "objects": objects_column(list(objects)),
                    **{name: pa.array(values, pa.int32()) for name, values in numbers.items()},
                }
            )
        )
    return path


def detections_of(card: dict, index: int, *, quality: float, seed: int) -> list[dict]:
    """Most objects, the less well placed the lower the `quality`, and some that are not there."""
    random = np.random.default_rng([seed, index, int(100 * quality)])
    objects = truth_of(card, index)
    point = card["detection"]["geometry"] == "point"
    found = []
    for box, label in zip(objects.boxes, objects.classes, strict=True):
        if random.random() > 0.5 + 0.5 * quality:
            continue
        side = 12 if point else box[2] - box[0]
        moved = box + np.tile(random.normal(0, 0.3 * (1.05 - quality) * side, 2), 2)
        kind = (
            label
            if random.random() < 0.8 + 0.2 * quality
            else random.integers(len(card["classes"]))
        )
        found.append((kind, moved, random.uniform(0.4, 1.0)))
    for _ in range(int(8 * (1 - quality)) + 1):
        corner = random.uniform((0, 0), (WIDTH - 20, HEIGHT - 20))
        box = np.concatenate([corner, corner + (0 if point else 15)])
        found.append((random.integers(len(card["classes"])), box, random.uniform(0.05, 0.7)))
    found.sort(key=lambda one: -one[2])
    corners = ("x_min", "y_min", "x_max", "y_max")
    return [
        {"class": int(kind), **dict(zip(corners, box.tolist(), strict=True)), "score": score}
        for kind, box, score in found
    ]


def make_object_predictions(
    path: Path,
    card: dict,
    *,
    backbone: str,
    probe: str = "fcos",
    seed: int = 0,
    quality: float = 0.8,
    pictures: int = 2,
    gates=(),
    empty: bool = False,
) -> dict:
    """Write a table of detections of a `quality` in [0, 1]; return its metadata."""
    names, task = names_of(card), card["task"]
    count = len(names)
    detections = [
        [] if empty else detections_of(card, i, quality=quality, seed=seed) for i in range(count)
    ]
    shown: list[str | None] = [None] * count
    if pictures:
        shown[1 : 1 + pictures] = ["drawn"] * pictures
        shown[-2], shown[-1] = "best", "worst"
    # not in the order of names: tables are in that of first appearance
    order = list(range(count))[::-1]
    table = pa.table(
        {
            "sample_id": [names[i] for i in order],
            "group_id": [f"plot{i // 2}" for i in order],
            "height": pa.array([HEIGHT] * count, pa.int32()),
            "width": pa.array([WIDTH] * count, pa.int32()),
            "objects": objects_column([truth_of(card, i) for i in order]),
            "detections": pa.array([detections[i] for i in order], pa.list_(DETECTION)),
            "shown": pa.array([shown[i] for i in order], pa.string()),
        }
    )
    metadata = {
        "fingerprint": fingerprint("predictions", card["dataset"], backbone, probe, seed),
        "stage": "detection",
        "dataset": card["dataset"],
        "backbone": backbone,
        "probe": probe,
        "kind": "detection",
        "seed": seed,
        "task": task,
        "classes": card["classes"],
        "detection": {k: v for k, v in card["detection"].items() if k != "splits"},
        "layers": ["layer4", "layer3"],
        "working_size": [128, 128],
        "head": "fcos",
        "n_train": 9,
        "n_val": 6,
        "n_test": count,
        "feature_dim": 96,
        "split_method": card["split_method"],
        "spatially_random": False,
        "settings": training_settings(quality),
        "gates": list(gates),
        "options": {"kind": "detection"},
        "backbone_fingerprint": fingerprint("features", card["dataset"], backbone),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, table, metadata)
    return {**metadata, "path": path}


def training_settings(quality: float, epochs: int = 4) -> dict:
    log = [
        {
            "epoch": e,
            "learning_rate": 1e-3,
            "train_loss": 2 / e,
            "val_loss": 2.2 / e,
            "val_ap": quality - 0.4 / e,
        }
        for e in range(1, epochs + 1)
    ]
    return {
        "parameters": 1234,
        "layers": ["layer4", "layer3"],
        "working_size": [128, 128],
        "learning_rate": 1e-3,
        "epoch": epochs,
        "epochs_log": log,
        "grid": [],
        "score_threshold": 0.3,
        "precision": "fp32",
        "strides": [8, 16],
    }


def prepare_objects(
    folder: Path,
    card: dict,
    *,
    backbones: dict[str, float],
    probes: dict[str, list[int]],
    **options,
) -> tuple[dict, list[pa.Table]]:
    """Cards, predictions and scores as `Report` takes them, and tables of scores.

    `backbones` maps a name to its quality, `probes` a name to its seeds.
    """
    cards = {card["dataset"]: write_card(folder / "card.json", card)}
    predictions, scores, tables = {}, {}, []
    for backbone, quality in backbones.items():
        for probe, seeds in probes.items():
            for seed in seeds:
                made = make_object_predictions(
                    folder / f"{backbone}-{seed}-{probe}.parquet",
                    card,
                    backbone=backbone,
                    probe=probe,
                    seed=seed,
                    quality=quality,
                    **options,
                )
                predictions[card["dataset"], backbone, seed, probe] = made["path"]
                scored = folder / f"{backbone}-{seed}-{probe}-scores.parquet"
                tables.append(score(made, scored))
                scores[card["dataset"], backbone, seed, probe] = scored
    return {"cards": cards, "predictions": predictions, "scores": scores}, tables


def score(made: dict, output: Path) -> pa.Table:
    """The table of scores of a table of detections, by the stage's own code."""
    spec = {
        "inputs": {"predictions": made["fingerprint"]},
        "dataset": made["dataset"],
        "stage": "bootstrap",
        "options": OPTIONS,
    }
    score_predictions(
        made["path"],
        output,
        spec=specification(spec),
        fingerprint=fingerprint("scores", str(output)),
    )
    return read_table(output)[0]
