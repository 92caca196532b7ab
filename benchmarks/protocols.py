"""All classification protocols and measures of one backbone, against torchgeo-bench and scikit-learn.

    snakemake --profile local --configfile config/examples/protocols.yaml --config data=FOLDER
    python benchmarks/protocols.py --data FOLDER [--peers .peers] [--dataset eurosat-rgb]

Runs every command of the plan that reads the features of the backbone again, into a temporary folder: the
probes, their bootstraps with calibration, the measures. Seconds are CPU of whole processes on one
thread, start-up included; the peer's are those inside its evaluations, all in one warm process, whose own
start-up is printed apart.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, print_table, run_worker, venv_python
from permafrost.core.identity import derive_seed
from permafrost.core.specification import SPLITS
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.plan import Plan
from permafrost.probes.embeddings.features import read_features
from permafrost.probes.few_shot.draws import nested_draws, sizes_of

# what the peers evaluate, by the probe (or measures) in which it is here; the rest they have not
PEERS = {
    "knn": ["knn"],
    "linear": ["linear"],
    "measures": ["intrinsic dimension", "silhouette"],
    "few-shot": ["few-shot"],
    "knn-sweep": ["knn-sweep"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=Path("config/examples/protocols.yaml"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dataset", default="eurosat-rgb")
    parser.add_argument("--backbone", default="mobilenetv2-imagenet")
    parser.add_argument("--peers", type=Path, help="virtual environment with torchgeo-bench")
    options = parser.parse_args()
    plan = Plan({**read_yaml(options.config), "data": str(options.data)}, Path.cwd())
    with tempfile.TemporaryDirectory() as folder:
        ours = our_seconds(plan, options.dataset, options.backbone, Path(folder))
        peers = {}
        if options.peers is not None:
            arrays = peer_arrays(plan, options.dataset, options.backbone)
            np.savez(Path(folder) / "features.npz", **arrays)
            worker = str(Path(__file__).parent / "_protocols_peer.py")
            python = str(venv_python(options.peers))
            peers = run_worker([python, worker, str(Path(folder) / "features.npz")])
            print(f"start-up of the peers: {peers.pop('start-up'):.1f} s")
    report(ours, peers)


def stores(plan: Plan, dataset: str, backbone: str) -> dict[str, Path]:
    folder = Path(plan.config["results"]) / "features" / dataset / backbone
    return {split: folder / f"{split}.zarr" for split in SPLITS}


def our_seconds(plan: Plan, dataset: str, backbone: str, folder: Path) -> dict[str, float]:
    """CPU seconds of each probe with its bootstrap, seeds added up, and of the measures."""
    paths = stores(plan, dataset, backbone)
    seconds: dict[str, float] = {}
    for name in plan.probes_of(dataset):
        for seed in plan.seeds_of(name):
            table, names = folder / f"{name}.parquet", (dataset, backbone, name, seed)
            probing = ["--features", *map(str, paths.values()), "--output", str(table)]
            spent = run_stage(plan.probes[name]["kind"], plan.probe(*names), probing)
            scoring = ["--predictions", str(table), "--output", str(folder / "scores.parquet")]
            spent += run_stage("bootstrap", plan.bootstrap(*names), scoring)
            seconds[name] = seconds.get(name, 0.0) + spent
    if (dataset, backbone) in plan.measured():
        output = ["--output", str(folder / "measures.parquet")]
        split = paths[(plan.config["measures"] or {})["split"]]
        if (dataset, backbone) in plan.viewed():
            views = Path(plan.config["results"]) / "views" / dataset / f"{backbone}.zarr"
            output += ["--views", str(views)]
        job = plan.measure(dataset, backbone)
        seconds["measures"] = run_stage("measure", job, ["--features", str(split), *output])
    return seconds


def run_stage(stage: str, job, options: list[str]) -> float:
    command = [sys.executable, "-m", "permafrost.stages.cli", stage, "--spec", job.spec]
    print(f"  {stage}", file=sys.stderr, flush=True)
    return measure_command([*command, "--code", job.code, *options])[1]


def peer_arrays(plan: Plan, dataset: str, backbone: str) -> dict[str, np.ndarray]:
    """Features and labels of the splits, and the rows of every draw of the few-shot probe."""
    expect = plan.extract(dataset, backbone).fingerprint
    splits = read_features(stores(plan, dataset, backbone), expect=expect)
    arrays = {f"x_{name}": split.embeddings for name, split in splits.items()}
    arrays |= {f"y_{name}": split.labels for name, split in splits.items()}
    probe = next(n for n in plan.probes_of(dataset) if plan.probes[n]["kind"] == "few_shot")
    options, train = plan.probes[probe], splits["train"]
    draws = nested_draws(
        train.labels,
        splits["val"].labels,
        sizes_of(options["shares"], options["per_class"]),
        draws=options["draws"],
        n_classes=len(train.classes),
        seed=derive_seed(dataset, 0),
    )
    count = 0
    for draw in draws:
        arrays |= {f"train_{count}": draw.train, f"val_{count}": draw.val}
        count += 1
    return {**arrays, "draws": np.array(count)}


def report(ours: dict[str, float], peers: dict) -> None:
    rows = []
    for name, seconds in ours.items():
        theirs = sum(peers[part]["cpu_s"] for part in PEERS.get(name, []) if peers)
        rows.append([name, *_row(seconds, theirs)])
    matched = [name for name in ours if name in PEERS]
    theirs = sum(each["cpu_s"] for each in peers.values())
    rows.append(["these five", *_row(sum(ours[name] for name in matched), theirs)])
    rows.append(["everything", *_row(sum(ours.values()), theirs)])
    print_table(["evaluation", "ours s", "peers s", "ratio"], rows)
    for name, each in peers.items():
        print(f"peer's {name}: {each['value']}")


def _row(ours: float, theirs: float) -> list[str]:
    return [f"{ours:.1f}", *([f"{theirs:.1f}", f"{theirs / ours:.1f}"] if theirs else ["-", "-"])]


if __name__ == "__main__":
    main()
