"""What light stages cost and import, on the results of a finished run, and what the imports that jobs share cost.

    envs/run permafrost run
    envs/run python benchmarks/startup.py [--repeats 5] [--only knn heads]

Runs the real command of each stage again, into a temporary folder, and prints the median CPU and wall
seconds, the peak memory and the heavy libraries that the process imported. Then the same for commands that
look at the catalogues, and for the import of the libraries that jobs share (`permafrost.plan.preloaded`).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _timing import measure_command, one_thread
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.options import KINDS, leaves
from permafrost.plan.plan import Plan
from permafrost.plan.preloaded import IMAGES, PAGE, of_backbone, of_probe
from permafrost.plan.record import record_plan

_PROGRAM = (sys.executable, "-X", "importtime", "-m", "permafrost.stages.cli")
#: commands that look at the catalogues
LOOKING = {
    "dataset": ("info", "eurosat"),
    "backbone": ("info", "resnet18-imagenet"),
    "fits": ("list", "backbones", "--fits", "eurosat"),
    "list": ("list", "backbones"),
}
HEAVY = ("torch", "timm", "torchgeo", "sklearn", "scipy", "pandas", "zarr", "faiss", "matplotlib")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=Path("config/demo.yaml"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="stages and groups of imports, by their names")
    arguments = parser.parse_args()
    plan = Plan(read_yaml(arguments.config), Path.cwd())
    with tempfile.TemporaryDirectory() as folder:
        every = commands(plan, Path(folder))
        every |= {name: [*_PROGRAM, *argv] for name, argv in LOOKING.items()}
        for stage, command in every.items():
            if arguments.only and stage not in arguments.only:
                continue
            plain = [part for part in command if part not in ("-X", "importtime")]
            show(stage, plain, arguments.repeats, ", ".join(imported(command)) or "none")
    shared = {"images": IMAGES, "page": PAGE, "heads": of_probe("segmentation")}
    shared |= {kind: of_backbone(kind) for kind in ("timm", "torchgeo")}
    for name, libraries in shared.items():
        if arguments.only and name not in arguments.only:
            continue
        command = [sys.executable, "-c", f"import {', '.join(libraries)}"]
        show(name, command, arguments.repeats, ", ".join(libraries))


def show(name: str, command: list[str], repeats: int, imports: str) -> None:
    """Print the medians of a command's runs after a first one."""
    runs = [measure_command(command) for _ in range(repeats + 1)][1:]
    wall, cpu, memory = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"{name:10s} {cpu:5.2f} s CPU  {wall:5.2f} s wall  {memory:5.0f} MB  imports: {imports}")


def commands(plan: Plan, folder: Path) -> dict[str, list[str]]:
    """The command of each stage for the first evaluations of the plan."""
    results = plan.config["results"]
    recorded = record_plan(plan, results)
    found = {}
    for dataset, backbone, probe, seed in plan.evaluations():
        kind, table = plan.probes[probe]["kind"], f"{dataset}/{backbone}/seed{seed}/{probe}.parquet"
        if KINDS[kind].reads not in ("embeddings", "patches") or leaves(plan.probes[probe]):
            continue  # it trains, or writes more than a table: no light stage
        stores = [
            f"{results}/features/{dataset}/{backbone}/{s}.zarr" for s in ("train", "val", "test")
        ]
        output = str(folder / f"{kind}.parquet")
        probing = ["--features", *stores, "--output", output, "--device", "cpu"]
        scoring = ["--predictions", f"{results}/predictions/{table}", "--output", output]
        found.setdefault(
            kind, stage_command(kind, plan.probe(dataset, backbone, probe, seed), probing)
        )
        job = plan.bootstrap(dataset, backbone, probe, seed)
        found.setdefault("bootstrap", stage_command("bootstrap", job, scoring))
    dataset, probe = plan.compared()[0]
    comparing = ["--results", results, "--output", str(folder / "compare.parquet")]
    found["compare"] = stage_command("compare", plan.compare(dataset, probe), comparing)
    gathering = ["--plan", recorded]
    for name in ("parquet", "csv", "standings", "standings-csv", "stamp"):
        gathering += [f"--{name}", str(folder / f"leaderboard.{name}")]
    found["aggregate"] = stage_command("aggregate", plan.aggregate(), gathering)
    return found


def stage_command(stage: str, job, options: list[str]) -> list[str]:
    return [*_PROGRAM, stage, "--spec", job.spec, "--code", job.code, *options]


def imported(command: list[str]) -> list[str]:
    """Heavy libraries among the modules that Python reports as imported."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=one_thread())
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    names = {line.rsplit("|", 1)[-1].strip() for line in lines}
    # an import that fails is listed too, but without any module inside the library
    roots = {name.partition(".")[0] for name in names if "." in name}
    return [name for name in HEAVY if name in roots]


if __name__ == "__main__":
    main()
