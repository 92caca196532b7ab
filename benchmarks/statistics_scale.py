"""Statistics of ever more test items, and measures of ever more features: CPU seconds and peak memory of the commands.

    python benchmarks/statistics_scale.py --folder DIR [--rows 10000 100000 1000000] [--only bootstrap compare]

The commands are those that the rules call, one thread each, on made-up predictions and features that are written by
blocks. Peers run in the same turn, in a process of their own: accuracy on resamples of rows by a loop in NumPy (with
`scipy.stats.bootstrap` as a second), and debiased CKA from whole Gram matrices.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, print_table

PROGRAM = [sys.executable, "-m", "permafrost.stages.cli"]
MARK = "0" * 64
BLOCK = 1 << 24  # bytes of scores or features that are made at a time
PER_GROUP = 100  # samples
WIDTH = 768
CKA_ROWS = 5000
CALIBRATION = {"bins": 15, "folds": 5, "floor": None}
HEADER = ["command", "what", "rows", "CPU s", "µs a row", "peak MB"]
#: (name, task, classes, grouped, resamples)
SCORED = [
    ("10 classes", "classification", 10, False, 200),
    ("10 classes, 1000 resamples", "classification", 10, False, 1000),
    ("10 classes, groups", "classification", 10, True, 200),
    ("1000 classes", "classification", 1000, False, 200),
    ("20 labels", "multilabel", 20, False, 200),
    ("20 labels, 1000 resamples", "multilabel", 20, False, 1000),
    ("20 labels, groups", "multilabel", 20, True, 200),
    ("numbers", "regression", 0, False, 200),
    ("numbers, 1000 resamples", "regression", 0, False, 1000),
    ("numbers, groups", "regression", 0, True, 200),
]


def blocks(rows: int, width: int):
    step = max(1, BLOCK // (4 * max(1, width)))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


def answers(task: str, classes: int, count: int, rng, target_rng):
    """(target, prediction, scores) of some rows; the targets follow from their own generator alone."""
    if task == "regression":
        target = target_rng.normal(size=count)
        return target, target + rng.normal(size=count), None
    if task == "multilabel":
        target = (target_rng.random((count, classes)) < 0.15).astype(np.uint8)
        logits = rng.normal(size=target.shape).astype(np.float32) + 2 * target - 1
        scores = (1 / (1 + np.exp(-logits))).astype(np.float32)
        return target, (scores > 0.5).astype(np.uint8), scores
    target = target_rng.integers(0, classes, count).astype(np.int32)
    logits = rng.normal(size=(count, classes)).astype(np.float32)
    logits[np.arange(count), target] += 2
    scores = np.exp(logits)
    scores /= scores.sum(axis=1, keepdims=True)
    return target, scores.argmax(axis=1).astype(np.int32), scores


def write_predictions(path: Path, task: str, classes: int, rows: int, grouped: bool, seed=0):
    """A table of predictions, as probes write it."""
    import pyarrow as pa
    from permafrost.core.tables import write_table
    from permafrost.probes.embeddings.features import Features
    from permafrost.probes.embeddings.predictions import Prediction, answer_columns

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {
        "fingerprint": MARK, "stage": "knn", "dataset": "made", "backbone": f"net{seed}", "probe": "knn",
        "seed": 0, "kind": "knn", "task": task, "classes": [f"class {i}" for i in range(classes)],
        "n_train": rows, "n_val": 0, "n_test": rows, "feature_dim": WIDTH, "settings": {}, "gates": [],
        "split_method": "random", "spatially_random": False, "backbone_fingerprint": MARK,
    }  # fmt: skip
    rng, target_rng, parts = np.random.default_rng(seed + 1), np.random.default_rng(0), []
    for start, stop in blocks(rows, classes):
        target, *answered = answers(task, classes, stop - start, rng, target_rng)
        test = Features(None, target, samples=None, attributes={})
        numbers = range(start, stop)
        groups = [f"scene {i // PER_GROUP:07}" if grouped else None for i in numbers]
        columns = {
            "sample_id": [f"sample {i:07}" for i in numbers],
            "group_id": pa.array(groups, pa.string()),
            **answer_columns(test, Prediction(*answered)),
        }
        parts.append(pa.table(columns))
    write_table(path, pa.concat_tables(parts), metadata)


def write_features(path: Path, rows: int, seed: int = 0, classes: int = 10) -> None:
    """A feature store of float32, as extraction leaves it."""
    import pyarrow as pa
    from permafrost.core.stores import write_store

    rng, centres = (
        np.random.default_rng(seed + 1),
        np.random.default_rng(0).normal(size=(classes, WIDTH)),
    )
    labels = np.arange(rows) % classes
    scales = np.arange(1, WIDTH + 1, dtype=np.float32) ** -0.5
    step = 2048
    with write_store(path, fingerprint=MARK) as writer:
        array = writer.array("embeddings", (rows, WIDTH), np.float32, rows_per_chunk=step)
        for start in range(0, rows, step):
            own = labels[start : start + step]
            noise = rng.standard_normal((len(own), WIDTH), np.float32)
            array[start : start + step] = noise * scales + centres[own].astype(np.float32)
        writer.array("labels", (rows,), np.int64, rows_per_chunk=step)[:] = labels
        names = [f"sample {i:07}" for i in range(rows)]
        writer.samples(pa.table({"sample_id": names, "group_id": pa.nulls(rows, pa.string())}))
        writer.attributes.update(
            task="classification", classes=[str(i) for i in range(classes)], gates=[],
            dataset="made", split_method="random", spatially_random=False, split="test",
        )  # fmt: skip


def command(stage: str, spec: dict, *arguments) -> list[str]:
    from permafrost.plan.sources import code_hash

    spec = {"stage": stage, "dataset": "made", **spec}
    job = ["--spec", json.dumps(spec), "--code", code_hash(stage, spec)]
    return [*PROGRAM, stage, *job, *map(str, arguments)]


def bootstrap_options(resamples: int, task: str) -> dict:
    judged = {} if task == "regression" else {"calibration": CALIBRATION}
    return {"resamples": resamples, "confidence": 0.95, "seed": 0, "method": "auto", **judged}


def scored(rows: int, most: int, what: str) -> list[tuple]:
    """Those of `SCORED` with `what` in their name, and no more than `most` scores."""
    return [one for one in SCORED if what in one[0] and rows * max(one[2], 1) <= most]


def bootstrap(folder: Path, rows: int, most: int, what: str):
    written: dict = {}
    for name, task, classes, grouped, resamples in scored(rows, most, what):
        path = folder / f"{task}{classes}{grouped}.parquet"
        if path not in written:
            for other in written:
                other.unlink(missing_ok=True)
            made(write_predictions, path, task, classes, rows, grouped)
            written[path] = True
        spec = {"backbone": "net", "probe": "knn", "seed": 0, "task": task,
                "options": bootstrap_options(resamples, task), "inputs": {"predictions": MARK}}  # fmt: skip
        output = folder / "scores.parquet"
        yield name, command("bootstrap", spec, "--predictions", path, "--output", output)
    for path in written:
        path.unlink(missing_ok=True)


def compare(folder: Path, rows: int, most: int, what: str, backbones: int):
    for name, task, classes, grouped, _ in scored(rows, most, what):
        if "resamples" in name:
            continue
        for seed in range(backbones):
            path = folder / "predictions/made" / f"net{seed}" / "seed0/knn.parquet"
            made(write_predictions, path, task, classes, rows, grouped, seed)
        options = {"resamples": 2000, "confidence": 0.95, "seed": 0}
        if task != "regression":
            options["calibration"] = {"bins": 15}
        spec = {"probe": "knn", "task": task, "options": options,
                "inputs": {"predictions": {f"net{i}/seed0": MARK for i in range(backbones)}}}  # fmt: skip
        output = folder / "comparisons.parquet"
        yield (
            f"{name}, {backbones} backbones",
            command("compare", spec, "--results", folder, "--output", output),
        )
        shutil.rmtree(folder / "predictions")


MEASURED = {
    "split": "test", "max_rows": 10_000, "seed": 0, "names": None,
    "bootstrap": {"resamples": 200, "confidence": 0.95, "seed": 0},
}  # fmt: skip


def measure(folder: Path, rows: int):
    made(write_features, folder / "test.zarr", rows)
    spec = {"backbone": "net", "options": MEASURED, "inputs": {"features": MARK}}
    output = folder / "measures.parquet"
    yield (
        f"{WIDTH} features",
        command("measure", spec, "--features", folder / "test.zarr", "--output", output),
    )
    shutil.rmtree(folder / "test.zarr")


def similarity(folder: Path, rows: int, backbones: int):
    for seed in range(backbones):
        made(write_features, folder / "features/made" / f"net{seed}" / "test.zarr", rows, seed)
    spec = {
        "options": MEASURED,
        "inputs": {"features": {f"net{i}": MARK for i in range(backbones)}},
    }
    yield (
        f"{WIDTH} features, {backbones} backbones",
        command("similarity", spec, "--results", folder, "--output", folder / "pairs.parquet"),
    )
    shutil.rmtree(folder / "features")


def made(function, *arguments) -> None:
    """Call a function in a process of its own: what it held would be counted as that of later commands."""
    process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{function.__name__} failed")


def peer(name: str, rows: int) -> None:
    """One of `PEERS`, to be measured as a process."""
    rng = np.random.default_rng(0)
    if name.startswith("accuracy"):
        hit = rng.random(rows) < 0.8
        if name == "accuracy, SciPy":
            from scipy.stats import bootstrap as drawn

            options = {"n_resamples": 200, "method": "percentile", "batch": 8, "rng": rng}
            drawn((hit,), np.mean, vectorized=True, **options)
        else:
            found = [hit[rng.integers(0, rows, rows)].mean() for _ in range(200)]
            np.quantile(found, [0.025, 0.975])
        return
    pair = [rng.normal(size=(rows, WIDTH)) for _ in range(2)]
    if name == "CKA":
        from permafrost.metrics.representation import debiased_cka

        debiased_cka(*pair)
        return
    grams = [each @ each.T for each in pair]
    for gram in grams:
        np.fill_diagonal(gram, 0.0)
    each = [hsic(grams[i], grams[j]) for i, j in ((0, 1), (0, 0), (1, 1))]
    print(each[0] / np.sqrt(each[1] * each[2]))


def hsic(one: np.ndarray, other: np.ndarray) -> float:
    """Unbiased, from whole Gram matrices without their diagonals (Song et al., 2012)."""
    n, sums = len(one), one.sum(axis=0) @ other.sum(axis=0)
    product = np.sum(one * other) + one.sum() * other.sum() / ((n - 1) * (n - 2))
    return (product - 2 * sums / (n - 2)) / (n * (n - 3))


PEERS = {
    "bootstrap": ("accuracy, a loop in NumPy", "accuracy, SciPy"),
    "similarity": ("CKA", "CKA from Gram matrices"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="for what is made up")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    stages = ("bootstrap", "compare", "measure", "similarity")
    parser.add_argument("--only", nargs="+", choices=stages, default=stages)
    parser.add_argument("--backbones", type=int, default=4, help="of compare and similarity")
    parser.add_argument("--entries", type=int, default=10**8, help="no larger tables of scores")
    parser.add_argument("--what", default="", help="only predictions with this in their name")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer(options.peer, *options.rows)
        return
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    table: list[list[str]] = []
    for stage in options.only:
        chosen = {"most": options.entries, "what": options.what}
        cases = {
            "bootstrap": partial(bootstrap, folder, **chosen),
            "compare": partial(compare, folder, **chosen, backbones=options.backbones),
            "measure": partial(measure, folder),
            "similarity": partial(similarity, folder, backbones=options.backbones),
        }[stage]
        for rows in options.rows:
            for name, call in cases(rows=rows):
                add(table, stage, name, rows, call)
        if options.no_peers:
            continue
        for name in PEERS.get(stage, ()):
            for rows in [CKA_ROWS] if stage == "similarity" else options.rows:
                call = [sys.executable, __file__, "--peer", name, "--rows", str(rows)]
                add(table, "peer", name, rows, call)
    print_table(HEADER, table)


def add(table: list, stage: str, name: str, rows: int, call: list[str]) -> None:
    _, cpu, peak = measure_command(call)
    row = [stage, name, f"{rows:,}", f"{cpu:.1f}", f"{cpu / rows * 1e6:.1f}", f"{peak:.0f}"]
    print("  " + " | ".join(row), file=sys.stderr, flush=True)
    table.append(row)


if __name__ == "__main__":
    main()
