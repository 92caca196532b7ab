"""Nearest neighbours of large training sets: CPU time and peak memory, beside FAISS and scikit-learn.

    python benchmarks/knn_scale.py --folder DIR [--rows 100000 1000000] [--queries 2000] [--job-rows 400000] \
        [--repeats 3] [--features ordinary identical]

DIR is a folder for temporary files: 3.1 GB for a million rows of 768 numbers. Features are made block by block and lie
in a `RowFile`, as a large split of a job does; the peers hold theirs in memory. Every run is a process of its own with
one thread. CPU seconds are those of searching, peak memory is that of the process, which includes 0.1 GB of imports.

Hours for 100,000 queries are extrapolated from those of `--queries`. They are rather too many: train is read once for
some 25,000 queries.

First at the smallest number of rows, in turn: our search, FAISS's IndexFlatL2 as it is and with the kernels that our
search lets it use, scikit-learn's brute force. Then our search at every number of rows, with and without 30 % identical
rows, the ranking of retrieval, and a whole job of the knn probe on stores of `--job-rows` rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import cpu_seconds, one_thread, print_table

WIDTH, CLASSES, K = 768, 100, 20
FEATURES = ("ordinary", "identical")  # with 30 % identical rows
BLOCK = 10_000
ALL_QUERIES = 100_000
#: CPU seconds before the first query: checking rows, their mean, equal ones
STARTS: list[float] = []


def blocks(rows: int, kind: str, split: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features around a centre per class, and classes; the same for the same arguments."""
    centres = np.random.default_rng(0).standard_normal((CLASSES, WIDTH), np.float32)
    for start in range(0, rows, BLOCK):
        rng = np.random.default_rng([split, start])
        labels = rng.integers(0, CLASSES, min(BLOCK, rows - start))
        features = rng.standard_normal((len(labels), WIDTH), np.float32) + centres[labels]
        if kind == "identical":
            features[rng.random(len(features)) < 0.3] = 0.5
        yield features, labels


def in_memory(rows: int, kind: str, split: int) -> np.ndarray:
    made = np.empty((rows, WIDTH), np.float32)
    for number, (features, _) in enumerate(blocks(rows, kind, split)):
        made[number * BLOCK : number * BLOCK + len(features)] = features
    return made


def in_file(rows: int, kind: str, split: int, folder: Path):
    from permafrost.core.row_file import RowFile

    made = RowFile(WIDTH, folder)
    for features, _ in blocks(rows, kind, split):
        made.append(features)
    return made


def ours(train, test, metric: str):
    from permafrost.probes.knn.search import NeighbourSearch

    seconds, one = cpu_seconds(lambda: NeighbourSearch(train, K, metric=metric))
    STARTS.append(seconds)
    return one.find(test)


def faiss_flat(train, test, metric: str):
    import faiss

    index = faiss.IndexFlatL2(WIDTH)
    index.add(train)
    return index.search(test, K)[1]


def faiss_with_kernels(train, test, metric: str):
    """FAISS, loaded as ours loads it."""
    from permafrost.core.blas import numpys_kernels

    with numpys_kernels():
        import faiss  # noqa: F401
    return faiss_flat(train, test, metric)


def scikit_learn(train, test, metric: str):
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=K, algorithm="brute").fit(train).kneighbors(test)[1]


SIDES = {
    "ours": ours,
    "faiss": faiss_flat,
    "faiss-kernels": faiss_with_kernels,
    "sklearn": scikit_learn,
}


def search(arguments) -> dict:
    """One search in this process."""
    side = SIDES[arguments.worker]
    small = np.random.default_rng(0).standard_normal((100, WIDTH), np.float32)
    test = in_memory(arguments.queries, arguments.kind, 1)
    if arguments.worker == "ours":
        train = in_file(arguments.rows[0], arguments.kind, 0, arguments.folder)
    else:
        train = in_memory(arguments.rows[0], arguments.kind, 0)
    seconds, found = cpu_seconds(
        lambda: side(train, test, arguments.metric),
        warm_up=lambda: side(small, small, arguments.metric),
    )
    if arguments.save:
        np.save(arguments.save, found)
    return {"cpu_s": seconds, "start_s": STARTS[-1] if STARTS else 0.0}


def job(arguments) -> dict:
    """A job of the knn probe on feature stores that are there."""
    from permafrost.probes.job import ProbeJob
    from permafrost.probes.kinds import KINDS

    kind = KINDS["knn"]
    spec = {
        "dataset": "made", "backbone": "made", "probe": "knn", "seed": 0,
        "options": {"kind": "knn", "k": K, "metric": "cosine"}, "inputs": {"features": "0" * 32},
    }  # fmt: skip
    one = ProbeJob.of(
        spec,
        kind.options_class(),
        stores={name: arguments.folder / f"{name}.zarr" for name in ("train", "val", "test")},
        output=arguments.folder / "made.parquet",
        fingerprint="1" * 32,
        device="cpu",
    )
    seconds, _ = cpu_seconds(lambda: kind.load()(one))
    return {"cpu_s": seconds, "asked_mb": kind.memory_mb}


def ranking(arguments) -> dict:
    """What retrieval does: queries rank a whole gallery that lies in a file."""
    from permafrost.probes.embeddings.features import Features
    from permafrost.probes.retrieval import RetrievalOptions, run_retrieval

    rows = {
        "train": in_file(arguments.rows[0], arguments.kind, 0, arguments.folder),
        "test": in_memory(arguments.queries, arguments.kind, 1),
    }
    splits = {
        name: Features(each, np.arange(len(each)) % CLASSES, samples=None, attributes={})
        for name, each in rows.items()
    }
    options = RetrievalOptions(gallery="train", k=[1, 5, 10], metric=arguments.metric)
    return {"cpu_s": cpu_seconds(lambda: run_retrieval(splits, options))[0]}


def write_stores(folder: Path, counts: dict[str, int]) -> None:
    """Feature stores as extraction leaves them."""
    import pyarrow as pa
    from permafrost.core.stores import write_store

    for split, (name, rows) in enumerate(counts.items()):
        with write_store(folder / f"{name}.zarr", fingerprint="0" * 32) as writer:
            array = writer.array(
                "embeddings", (rows, WIDTH), np.float32, rows_per_chunk=BLOCK // 10
            )
            labels = writer.array("labels", (rows,), np.int64, rows_per_chunk=BLOCK)
            for number, (features, own) in enumerate(blocks(rows, "ordinary", split)):
                place = slice(number * BLOCK, number * BLOCK + len(own))
                array[place], labels[place] = features, own
            ids = [f"{name} {row}" for row in range(rows)]
            writer.samples(pa.table({"sample_id": ids, "group_id": pa.nulls(rows, pa.string())}))
            writer.attributes.update(
                task="classification", classes=[f"class {i}" for i in range(CLASSES)], gates=[],
                split_method="given", spatially_random=False, split=name,
            )  # fmt: skip


def run(
    worker: str, rows: int, queries: int, kind: str, metric: str, folder: Path, save=""
) -> dict:
    """What a worker reports, and its peak memory in MB."""
    words = [
        "--worker", worker, "--rows", rows, "--queries", queries, "--kind", kind,
        "--metric", metric, "--folder", folder, "--save", save,
    ]  # fmt: skip
    command = [sys.executable, __file__, *(str(word) for word in words)]
    done = subprocess.run(command, env=one_thread(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def against_peers(rows: int, queries: int, kind: str, repeats: int, folder: Path) -> None:
    reports: dict[str, list[dict]] = {side: [] for side in SIDES}
    for _ in range(repeats):
        for side in SIDES:
            save = folder / f"{side}.npy"
            reports[side].append(run(side, rows, queries, kind, "l2", folder, save))
    found = {side: np.load(folder / f"{side}.npy") for side in SIDES}
    seconds = {s: statistics.median(one["cpu_s"] for one in reports[s]) for s in SIDES}
    lines = []
    for side in SIDES:
        equal = (found[side] == found["ours"]).mean()
        memory = max(one["peak_mb"] for one in reports[side])
        ratio = seconds[side] / seconds["ours"]
        lines.append(
            [side, f"{seconds[side]:.1f}", f"{ratio:.2f}", f"{memory:.0f}", f"{equal:.6f}"]
        )
    print(f"\n{rows} x {WIDTH}, {queries} queries, k = {K}, l2, {kind} rows:")
    print_table(["side", "CPU s", "its CPU / ours", "peak MB", "neighbours equal to ours"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--job-rows", type=int, default=0, help="of the job's training set")
    parser.add_argument("--worker", choices=[*SIDES, "job", "retrieval"], help=argparse.SUPPRESS)
    parser.add_argument(
        "--features", nargs="+", choices=FEATURES, default=FEATURES, help="their kinds"
    )
    parser.add_argument("--kind", default="ordinary", help=argparse.SUPPRESS)
    parser.add_argument("--metric", default="l2", help=argparse.SUPPRESS)
    parser.add_argument("--save", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        report = {"job": job, "retrieval": ranking}.get(arguments.worker, search)(arguments)
        report["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(report))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if arguments.repeats:
            for kind in arguments.features:
                against_peers(arguments.rows[0], arguments.queries, kind, arguments.repeats, folder)
        lines = []
        for rows in arguments.rows:
            for kind, metric in (("ordinary", "l2"), ("ordinary", "cosine"), ("identical", "l2")):
                if kind not in arguments.features:
                    continue
                one = run("ours", rows, arguments.queries, kind, metric, folder)
                start = one["start_s"]
                each = (one["cpu_s"] - start) / arguments.queries
                hours = (start + each * ALL_QUERIES) / 3600
                cells = f"{start:.1f}", f"{1e3 * each:.2f}", f"{one['peak_mb']:.0f}", f"{hours:.2f}"
                lines.append([rows, kind, metric, *cells])
                print(*lines[-1], file=sys.stderr, flush=True)
        print(f"\n{arguments.queries} queries, k = {K}, from a file:")
        hours = f"CPU h for {ALL_QUERIES} queries, extrapolated"
        print_table(
            ["rows", "features", "metric", "start, CPU s", "a query, CPU ms", "peak MB", hours],
            lines,
        )
        lines = []
        for rows in arguments.rows:
            # as many as go through a large gallery together
            queries = min(max(1, 64_000_000 // rows), arguments.queries)
            one = run("retrieval", rows, queries, "ordinary", "cosine", folder)
            each = f"{1e3 * one['cpu_s'] / queries:.0f}"
            lines.append([rows, queries, each, f"{one['peak_mb']:.0f}"])
        print("\nretrieval, every query ranks all rows, cosine:")
        print_table(["rows", "queries", "a query, CPU ms", "peak MB"], lines)
        if arguments.job_rows:
            test = arguments.queries
            write_stores(folder, {"train": arguments.job_rows, "val": test, "test": test})
            one = run("job", 1, 1, "ordinary", "cosine", folder)
            print(
                f"\na job, {arguments.job_rows} train and {test} test rows: {one['cpu_s']:.0f} CPU s, "
                f"peak {one['peak_mb']:.0f} MB of {one['asked_mb']} MB asked for"
            )


if __name__ == "__main__":
    main()
