"""The sweep of linear probes (and other probes by lines) over features that are larger than memory should hold.

    envs/run python benchmarks/linear_scale.py --folder DIR [--rows 100000 1000000] [--sides ...] [--kinds ...]

Features of `--rows` training samples x 768 (and a tenth of them for validation and for test each), 10 classes: normal
ones of variance 1/j along direction j, turned at random, the labels drawn from a softmax of linear logits. They are
written to feature stores in DIR by blocks. Each line is a whole job in a process of its own with one thread: CPU
seconds, peak memory (of the process, as the system counts it), and the most bytes that its temporary files held.
Sides: `streamed` is what the job does; `held` the same with all features in memory; `before` the sources in --before.
With `--peer C C …` scikit-learn's LogisticRegression (lbfgs) is fitted at those of the 40 values of C, on the training
rows of the first size, and both objectives are evaluated here, in float64.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import one_thread, print_table

WIDTH, CLASSES, BLOCK = 768, 10, 8192
GRID = 10.0 ** np.linspace(-6, 4, 40)
SPLITS = {"train": 1.0, "val": 0.1, "test": 0.1}
OPTIONS = {
    "linear": {},
    "linear 14 C": {"c_count": 14},
    "ridge": {"choose": "validation"},
    "sgd_linear": {"learning_rate": [0.03, 0.1], "epochs": 10, "batch_size": 256},
}


def write_stores(folder: Path, rows: int) -> None:
    """Feature stores of all splits, with classes and (linked) with numbers."""
    import pyarrow as pa
    from permafrost.core.stores import write_store

    about = {"gates": [], "split_method": "given", "spatially_random": False, "target": "t"}
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    turn *= (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)[:, None]
    weights = rng.normal(size=(WIDTH, CLASSES)).astype(np.float32)
    for split, share in SPLITS.items():
        count = int(rows * share)
        labels = np.empty(count, np.int64)
        numbers = np.empty(count)
        path = folder / f"{split}.zarr"
        ids = pa.table(
            {
                "sample_id": [f"{split} {i:07}" for i in range(count)],
                "group_id": pa.nulls(count, pa.string()),
            }
        )
        with write_store(path, fingerprint="features") as writer:
            array = writer.array("embeddings", (count, WIDTH), "float32", rows_per_chunk=1024)
            for start in range(0, count, BLOCK):
                block = slice(start, min(start + BLOCK, count))
                x = rng.normal(size=(block.stop - start, WIDTH)).astype(np.float32) @ turn
                logits = x @ weights + rng.gumbel(size=(len(x), CLASSES)).astype(np.float32)
                array[block] = x + 0.3
                labels[block], numbers[block] = logits.argmax(axis=1), logits[:, 0]
            writer.array("labels", (count,), "int64", rows_per_chunk=65536)[:] = labels
            writer.samples(ids)
            writer.attributes.update(
                **about, task="classification", classes=[f"c{i}" for i in range(CLASSES)]
            )
        with write_store(folder / f"{split}-numbers.zarr", fingerprint="features") as writer:
            held = path / "embeddings"
            chunks = [p.relative_to(held) for p in held.rglob("*") if p.is_file()]
            chunks = [str(p) for p in chunks if p.name != "zarr.json"]
            writer.adopt("embeddings", held, chunks)
            writer.array("labels", (count,), "float64", rows_per_chunk=65536)[:] = numbers
            writer.samples(ids)
            writer.attributes.update(**about, task="regression", classes=[])


def job(kind: str, side: str, folder: Path) -> None:
    """One whole job; prints what it took. Runs in a process of its own."""
    import weakref

    from permafrost.core.option_models import read
    from permafrost.probes.embeddings import features
    from permafrost.probes.job import ProbeJob
    from permafrost.probes.kinds import KINDS

    options, kind = OPTIONS[kind], kind.split()[0]
    if side == "held":
        features.HELD_BYTES = float("inf")
    taken = {"now": 0, "most": 0}
    if side == "streamed":
        from permafrost.core.row_file import RowFile

        append = RowFile.append

        def counted(self, rows):
            if not len(self):
                weakref.finalize(
                    self, lambda b=(held := [0]): taken.update(now=taken["now"] - b[0])
                )
                self.counted = held
            append(self, rows)
            self.counted[0] += rows.nbytes
            taken["now"] += rows.nbytes
            taken["most"] = max(taken["most"], taken["now"])

        RowFile.append = counted
    kept = {}
    if kind == "linear":
        from dataclasses import replace

        from permafrost.probes.linear import probe

        fit_linear = probe.fit_linear

        def recorded(train, val, settings, **how):
            fit = fit_linear(train, val, replace(settings, keep_path=True), **how)
            kept.update(
                coef=np.stack([pair[0] for pair in fit.path]),
                bias=np.stack([pair[1] for pair in fit.path]),
                grid=np.array(fit.settings["c_grid"]),
                final=np.concatenate([fit.coef.reshape(-1), fit.intercept]),
            )
            iterations = sum(fit.settings["iterations"]), fit.settings["final"]["iterations"]
            kept["iterations"] = np.array(iterations)
            return fit

        probe.fit_linear = recorded
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from helpers.stages.probe_jobs import configured

    ending = "-numbers.zarr" if kind == "ridge" else ".zarr"
    values = configured(kind, **options)
    values.pop("kind")
    made = ProbeJob(
        kind=kind,
        dataset="made",
        backbone="made",
        probe=kind,
        seed=0,
        options=read(KINDS[kind].options_class(), without_dates(values), where=kind),
        features="features",
        stores={split: folder / f"{split}{ending}" for split in SPLITS},
        output=folder / f"{kind}-{side}.parquet",
        fingerprint="0" * 32,
        device="cpu",
    )
    KINDS[kind].load()(made)
    if kept:
        np.savez(folder / f"{kind}-{side}.npz", **kept)
    about = {"disk": taken["most"]}
    if kept:
        about["iterations"] = kept["iterations"].tolist()
    print(json.dumps(about))


def without_dates(values: dict) -> dict:
    from permafrost.features.dates import OF_DATES

    return {name: value for name, value in values.items() if name not in OF_DATES}


def peer(folder: Path, places: list[int]) -> None:
    """scikit-learn at some of the grid's C; one process."""
    from permafrost.core.stores import Store
    from sklearn.linear_model import LogisticRegression

    store = Store(folder / "train.zarr")
    x, y = store.read("embeddings"), store.read("labels")
    n = len(x)
    x -= x.mean(axis=0, dtype=np.float64).astype(np.float32)
    with np.load(folder / "linear-streamed.npz") as file:
        ours = {name: file[name] for name in file.files}
    for place in places:
        c = float(ours["grid"][place])
        start = time.process_time()
        fit = LogisticRegression(C=c, solver="lbfgs", max_iter=5000).fit(x, y)
        seconds = time.process_time() - start
        # the mean of the raw features changes the bias alone
        raw = store.read("embeddings", 0, 8)
        shift = (raw - x[:8]).astype(np.float64)[0]
        bias = ours["bias"][place] + ours["coef"][place] @ shift
        values = [
            _objective(w, b, x, y, c)
            for w, b in ((ours["coef"][place], bias), (fit.coef_, fit.intercept_))
        ]
        line = {
            "c": c,
            "s": seconds,
            "steps": int(fit.n_iter_[0]),
            "excess": values[0] / values[1] - 1,
        }
        print(json.dumps({**line, "n": n}), flush=True)


def _objective(coef, bias, x, y, c: float) -> float:
    total = 0.0
    for start in range(0, len(x), BLOCK):
        logits = x[start : start + BLOCK].astype(np.float64) @ coef.T.astype(np.float64) + bias
        top = logits.max(axis=1)
        true = logits[np.arange(len(logits)), y[start : start + BLOCK]]
        total += (np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top - true).sum()
    return total / len(x) + (coef.astype(np.float64) ** 2).sum() / (2 * len(x) * c)


def run(*arguments: str, source: Path | None = None) -> tuple[float, float, float, list[dict]]:
    """CPU seconds, wall seconds, peak MB, and what a child printed."""
    environment = one_thread()
    if source is not None:
        environment["PYTHONPATH"] = str(source / "workflow")
    command = [sys.executable, __file__, "--child", *arguments]
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        raise SystemExit(f"{arguments} failed")
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    wall = time.perf_counter() - start
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--kinds", nargs="+", choices=OPTIONS, default=["linear"])
    parser.add_argument("--sides", nargs="+", default=["streamed", "held"])
    parser.add_argument(
        "--before", type=Path, help="a checkout of other sources, for the side before"
    )
    parser.add_argument("--peer", type=int, nargs="*", default=[], help="places of C in the grid")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, *rest = options.child
        if what == "peer":
            peer(Path(rest[0]), [int(one) for one in rest[1:]])
        elif what == "make":
            write_stores(Path(rest[0]), int(rest[1]))
        else:
            job(what, rest[0], Path(rest[1]))
        return
    header = ["rows", "job", "side", "CPU s", "wall s", "peak MB", "temporary MB", "iterations"]
    lines = []
    for rows in options.rows:
        folder = options.folder / str(rows)
        if not (folder / "test-numbers.zarr").exists():
            folder.mkdir(parents=True, exist_ok=True)
            print(f"writing {rows} rows", file=sys.stderr, flush=True)
            run("make", str(folder), str(rows))
        for _ in range(options.repeats):
            for kind in options.kinds:
                for side in options.sides:
                    print(f"{rows} {kind} {side}", file=sys.stderr, flush=True)
                    source = options.before if side == "before" else None
                    cpu, wall, peak, said = run(kind, side, str(folder), source=source)
                    disk, steps = said[-1]["disk"] / 1e6, said[-1].get("iterations", "")
                    lines.append([f"{rows:,}", kind, side, f"{cpu:.1f}", f"{wall:.1f}"])
                    lines[-1] += [f"{peak:.0f}", f"{disk:.0f}", steps]
                    print(lines[-1], file=sys.stderr, flush=True)
        for kind in {kind.split()[0] for kind in options.kinds}:
            tables = [folder / f"{kind}-{side}.parquet" for side in ("streamed", "held")]
            if len({table.read_bytes() for table in tables if table.exists()}) > 1:
                raise SystemExit(f"streamed and held tables of {kind} differ")
    print_table(header, lines)
    if options.peer:
        folder = options.folder / str(options.rows[0])
        _, _, peak, said = run("peer", str(folder), *(str(one) for one in options.peer))
        print_table(
            ["C", "scikit-learn CPU s", "its steps", "ours / its objective - 1"],
            [[f"{s['c']:.3g}", f"{s['s']:.0f}", s["steps"], f"{s['excess']:.1e}"] for s in said],
        )
        print(f"its peak: {peak:.0f} MB")


if __name__ == "__main__":
    main()
