"""Synthetic cards, predictions, scores, comparisons and plans in the shape that the stages write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from permafrost.core.identity import canonical_json, fingerprint
from permafrost.core.stores import write_store
from permafrost.core.tables import write_table
from permafrost.data.store import card as data_card
from permafrost.report.tables.terminal import leaderboard_blocks
from permafrost.statistics.scores.comparison_table import Comparisons
from permafrost.statistics.tables import ScoreColumns

# names of probes in these tests -> kind
KINDS = {
    "knn": "knn",
    "linear": "linear",
    "fpn": "segmentation",
    "dense-knn": "dense_knn",
    "fcos": "detection",
}
C_GRID = [10**exponent for exponent in np.linspace(-6, 4, 40).tolist()]


def report_text(folder: Path) -> str:
    """All pages of a report, one after the other."""
    return "\n".join(page.read_text() for page in sorted(folder.rglob("*.html")))


def class_names(count: int) -> list[str]:
    known = [
        "AnnualCrop",
        "Forest",
        "HerbaceousVegetation",
        "Highway",
        "Industrial",
        "Pasture",
        "PermanentCrop",
        "Residential",
        "River",
        "SeaLake",
    ]
    return (known + [f"class_{i:02d}" for i in range(10, count)])[:count]


def make_card(
    dataset: str = "eurosat",
    *,
    classes: int = 10,
    task: str = "classification",
    spatially_random: bool = False,
    bands: int = 4,
    counts=(600, 120, 200),
) -> dict:
    random = np.random.default_rng(len(dataset) + classes)
    names = [
        ("B02", "blue", 492),
        ("B03", "green", 560),
        ("B04", "red", 665),
        ("B08", "nir", 833),
        ("B11", "swir1", 1614),
        ("B12", "swir2", 2202),
    ]
    splits = {}
    for split, count in zip(("train", "val", "test"), counts, strict=True):
        share = random.dirichlet(np.full(classes, 8.0))
        splits[split] = {
            "count": count,
            "class_counts": random.multinomial(count, share).tolist(),
            "groups": max(1, count // 20),
        }
    return {
        "dataset": dataset,
        "title": f"The {dataset} dataset",
        "task": task,
        "fingerprint": fingerprint("card", dataset),
        "bands": [
            {
                "name": name,
                "common_name": common,
                "wavelength_nm": wavelength,
                "sensor": "sentinel2",
                "unit": "digital_number",
                "scale": 1e-4,
                "offset": 0,
                "mean": 900.0 + 300 * i,
                "std": 250.0 + 60 * i,
                "min": 1,
                "max": 6000 + 500 * i,
            }
            for i, (name, common, wavelength) in enumerate(names[:bands])
        ],
        "selected": [name for name, *_ in names[:bands]],
        "classes": class_names(classes),
        "ignore_index": None,
        "dead_classes": [],
        "splits": splits,
        "split_method": "random" if spatially_random else "group",
        "split_seed": 0,
        "spatially_random": spatially_random,
        "audit": {
            "exact_duplicates": 0,
            "near_duplicates": 3,
            "shared_groups": 0,
            "min_distance_km": 2.41,
            "examples": [],
        },
        "image_size": {"min": [64, 64], "max": [64, 64]},
        "gsd_m": 10.0,
        "licence": "MIT",
        "citation": "Helber et al. 2019",
    }


def card_of(card: dict) -> data_card.Card:
    """The `Card` of what `make_card` made."""
    return data_card.Card(**{"detection": None, **card})


def write_card(path: Path, card: dict) -> Path:
    data_card.write_card(path, card_of(card))
    return path


def make_predictions(
    path: Path,
    card: dict,
    *,
    backbone: str,
    probe: str = "linear",
    seed: int = 0,
    accuracy: float = 0.8,
    gates=(),
    torch: str = "2.13.0",
) -> dict:
    """Write a predictions table; return its metadata (with "path" added)."""
    count, classes = card["splits"]["test"]["count"], len(card["classes"])
    random = np.random.default_rng([seed, len(backbone), len(probe), int(accuracy * 1000)])
    columns = {
        "sample_id": pa.array([f"{card['dataset']}-{i:05d}" for i in range(count)]),
        "group_id": pa.array([f"scene{i // 20}" for i in range(count)]),
    }
    if card["task"] == "multilabel":
        target = (random.random((count, classes)) < 0.3).astype(np.uint8)
        flip = random.random((count, classes)) > accuracy
        prediction = np.where(flip, 1 - target, target).astype(np.uint8)
        scores = np.where(prediction, 0.8, 0.2).astype(np.float32)
        columns["target"] = _lists(target, pa.uint8())
        columns["prediction"] = _lists(prediction, pa.uint8())
    else:
        target = np.repeat(np.arange(classes), card["splits"]["test"]["class_counts"])
        # the same of all backbones
        np.random.default_rng(0).shuffle(target)
        guess = random.integers(0, classes, count)
        prediction = np.where(random.random(count) < accuracy, target, guess)
        scores = np.full((count, classes), 0.3 / max(classes - 1, 1), np.float32)
        scores[np.arange(count), prediction] = 0.7
        columns["target"] = pa.array(target, pa.int32())
        columns["prediction"] = pa.array(prediction, pa.int32())
    columns["scores"] = _lists(scores, pa.float32())
    settings = {"k": 5, "metric": "l2"}
    if KINDS.get(probe, probe) == "linear":
        place = 18 + len(backbone) % 9
        curve = [
            round(accuracy - 0.0012 * (i - place) ** 2 * accuracy, 4) for i in range(len(C_GRID))
        ]
        settings = {
            "best_c": C_GRID[place],
            "c_grid": C_GRID,
            "val_scores": curve,
            "objective": 0.41,
            "gradient_norm": 1e-7,
            "iterations": 93,
            "merge_val": True,
        }
    metadata = {
        "feature_versions": {"permafrost": "0.1.0", "torch": torch},
        "fingerprint": fingerprint("predictions", card["dataset"], backbone, probe, seed),
        "stage": probe,
        "dataset": card["dataset"],
        "backbone": backbone,
        "probe": probe,
        "kind": KINDS.get(probe, probe),
        "seed": seed,
        "task": card["task"],
        "classes": card["classes"],
        "n_train": card["splits"]["train"]["count"],
        "n_val": card["splits"]["val"]["count"],
        "n_test": count,
        "feature_dim": 1280,
        "split_method": card["split_method"],
        "spatially_random": card["spatially_random"],
        "settings": settings,
        "gates": list(gates),
        "options": {"kind": KINDS.get(probe, probe)},
        "backbone_fingerprint": fingerprint("features", card["dataset"], backbone),
        "weights_sha256": None,
        "input": {"bands": ["B04", "B03", "B02"], "size": [224, 224]},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_table(path, pa.table(columns), metadata)
    return {**metadata, "path": path}


def _lists(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), kind), values.shape[1])


def make_score_rows(
    *,
    dataset: str = "eurosat",
    backbone: str,
    probe: str = "linear",
    seed: int = 0,
    value: float = 0.8,
    half: float = 0.02,
    classes=(),
    gates: str = "",
    task: str = "classification",
    n_test: int = 200,
    spatially_random=False,
) -> list[dict]:
    """Overall and per-class score rows of one evaluation; NaN `half` gives NaN intervals."""
    names = (
        ["accuracy", "macro_f1", "balanced_accuracy"]
        if task == "classification"
        else ["micro_ap", "macro_ap"]
    )
    per_class = "recall" if task == "classification" else "average_precision"
    wanted = [(name, None, value - 0.01 * i) for i, name in enumerate(names)]
    wanted += [
        (per_class, name, min(1.0, value + 0.02 * (i % 5 - 2))) for i, name in enumerate(classes)
    ]
    settings = {"best_c": 0.1} if probe == "linear" else {"k": 5, "metric": "l2"}
    return [
        {
            "dataset": dataset,
            "backbone": backbone,
            "probe": probe,
            "kind": KINDS.get(probe, probe),
            "seed": seed,
            "task": task,
            "metric": metric,
            "class": name,
            "setting": None,
            "value": point,
            "lower": point - half,
            "upper": min(point + half, 1.0) if half == half else half,
            "confidence": 0.95,
            "method": "percentile",
            "resamples": 200,
            "n_undefined": 0,
            "n_draws": None,
            "draw_std": None,
            "n_rows": None,
            "unit": "group",
            "n_units": 10,
            "n_test": n_test,
            "n_train": 600,
            "n_val": 120,
            "feature_dim": 1280,
            "primary": metric in ("accuracy", "micro_ap"),
            "higher_is_better": True,
            "split_method": "random" if spatially_random else "group",
            "spatially_random": spatially_random,
            "gates": gates,
            "settings": canonical_json(settings),
            "bootstrap_seed": 20_240_101,
            "fingerprint": fingerprint("predictions", dataset, backbone, probe, seed),
            "backbone_fingerprint": fingerprint("features", dataset, backbone),
        }
        for metric, name, point in wanted
    ]


def score_table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ScoreColumns.arrow())


def make_comparison_table(dataset: str, probe: str, backbones: list[str]) -> pa.Table:
    pairs = [(a, b) for i, a in enumerate(backbones) for b in backbones[i + 1 :]]
    rows = [
        {
            "dataset": dataset,
            "probe": probe,
            "seeds": "0",
            "n_runs": 1,
            "metric": "accuracy",
            "higher_is_better": True,
            "backbone_a": a,
            "backbone_b": b,
            "difference": 0.05 * (i - 1),
            "lower": 0.05 * (i - 1) - 0.03,
            "upper": 0.05 * (i - 1) + 0.03,
            "detectable": 0.04,
            "p_value": 0.01 * (i + 1),
            "p_adjusted": min(1.0, 0.03 * (i + 1)),
            "adjustment": "romano_wolf",
            "gates": "",
            "p_mcnemar": None,
            "n_undefined": 0,
            "confidence": 0.95,
            "resamples": 200,
            "unit": "group",
            "n_units": 10,
            "n_test": 200,
            "bootstrap_seed": 20_240_101,
        }
        for i, (a, b) in enumerate(pairs)
    ]
    return pa.Table.from_pylist(rows, schema=Comparisons.arrow())


def make_image_store(
    path: Path, card: dict, *, split: str = "test", size: int = 32, **columns
) -> Path:
    """An image store with a soft pattern per class, in the card's bands; `columns` of its samples."""
    count, bands = card["splits"][split]["count"], len(card["bands"])
    random = np.random.default_rng(7)
    y, x = np.mgrid[0:size, 0:size] / size
    with write_store(path, fingerprint=fingerprint("images", card["dataset"], split)) as writer:
        images = writer.array("images", (count, bands, size, size), np.uint16, rows_per_chunk=32)
        pixels = np.empty((count, bands, size, size), np.uint16)
        for index in range(count):
            wave = np.sin(2 * np.pi * (x * (1 + index % 4) + y * (1 + index % 3)))
            for band in range(bands):
                noise = random.normal(0, 60, (size, size))
                pixels[index, band] = np.clip(900 + 250 * band + 500 * wave + noise, 0, 9000)
        images[:] = pixels
        labels = writer.array("labels", (count,), np.int64, rows_per_chunk=count)
        labels[:] = np.zeros(count, np.int64)
        writer.samples(
            pa.table(
                {
                    "sample_id": [f"{card['dataset']}-{i:05d}" for i in range(count)],
                    "height": pa.array([size] * count, pa.int32()),
                    "width": pa.array(
                        [size - 8 if i % 7 == 0 else size for i in range(count)], pa.int32()
                    ),
                    **columns,
                }
            )
        )
    return path


def make_plan(datasets: list[str], backbones: list[str], probes=("knn", "linear")) -> dict:
    config = {
        "backbones": backbones,
        "datasets": datasets,
        "seeds": [0],
        "probes": {name: {"kind": KINDS.get(name, name)} for name in probes},
        "bootstrap": {"resamples": 200, "confidence": 0.95, "seed": 0},
    }
    return {
        "plan": fingerprint("plan", datasets, backbones),
        "config": config,
        "backbones": {
            name: {"kind": "imagestats" if name == "imagestats" else "timm", "title": f"The {name}"}
            for name in backbones
        },
        "datasets": {
            name: {"task": "classification", "source": {"kind": "folder"}} for name in datasets
        },
        "jobs": [],
    }


def format_leaderboard(table: pa.Table, **options) -> str:
    """`leaderboard_blocks` as text."""
    blocks = leaderboard_blocks(table, **options)
    return "\n\n".join(block.plain() for block in blocks) + "\n"
