"""Seconds and memory that Snakemake needs to plan a large catalogue.

    envs/run python benchmarks/dag.py [--backbones 100 --datasets 25]

Makes a project with that many backbones and datasets and four probes, and measures, in processes of
their own: the Snakefile alone (parse, validation, plan), a dry run with nothing done, and a dry run
with everything done (all outputs present, without Snakemake's own records).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PROBES = {
    "knn": {"kind": "knn", "k": 5},
    "knn20": {"kind": "knn", "k": 20},
    "linear": {"kind": "linear"},
    "linear-standardized": {"kind": "linear", "standardize": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backbones", type=int, default=100)
    parser.add_argument("--datasets", type=int, default=25)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder), arguments.backbones, arguments.datasets)
        report("Snakefile alone (--list)", measure(project, "--list"))
        report("dry run, nothing done", measure(project, "-n", "--quiet", "all"))
        create_outputs(project)
        report("dry run, everything done", measure(project, "-n", "--quiet", "all"))


def make_project(folder: Path, backbones: int, datasets: int) -> Path:
    for name in ("workflow", "config", "profiles"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    shutil.copy2(ROOT / "Snakefile", folder)
    extra_backbones = {
        f"backbone-{i}": {"kind": "imagestats", "title": str(i)} for i in range(backbones)
    }
    extra_datasets = {
        f"dataset-{i}": {"task": "classification", "source": {"kind": "demo", "seed": i}}
        for i in range(datasets)
    }
    config = {
        "backbones": list(extra_backbones),
        "datasets": list(extra_datasets),
        "extra_backbones": extra_backbones,
        "extra_datasets": extra_datasets,
        "probes": PROBES,
    }
    (folder / "config/config.yaml").write_text(yaml.safe_dump(config))
    return folder


def measure(project: Path, *arguments: str) -> tuple[float, float, float, int]:
    """Wall and CPU seconds, peak memory in MB, and the number of jobs planned."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/local", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(project / "workflow")}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=project, env=environment, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0)
        text = output.read()
    if status:
        raise SystemExit(text[-3000:])
    wall = time.perf_counter() - start
    cpu = usage.ru_utime + usage.ru_stime
    jobs = [line.split()[1] for line in text.splitlines() if line.startswith("total ")]
    return wall, cpu, usage.ru_maxrss / 1024, int(jobs[0]) if jobs else 0


def create_outputs(project: Path) -> None:
    (plan,) = (project / "results/plans").glob("*.json")
    recorded = json.loads(plan.read_text())
    paths = [row["path"] for row in recorded["outputs"]]
    (gathered,) = (row for row in recorded["outputs"] if row["stage"] == "aggregate")
    paths += [f"results/plans/{made}.done" for made in (gathered["fingerprint"], recorded["plan"])]
    paths += ["results/leaderboard.csv", "results/report/index.html"]
    for path in [*paths, "results/report/figures/x.svg", "results/report/datasets/x.html"]:
        target = project / path
        if target.suffix == ".zarr":
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.touch()


def report(label: str, figures: tuple[float, float, float, int]) -> None:
    wall, cpu, memory, jobs = figures
    per_job = f", {1000 * cpu / jobs:.2f} ms CPU per job" if jobs else ""
    print(
        f"{label:28s} {wall:7.1f} s wall  {cpu:7.1f} s CPU  {memory:6.0f} MB  {jobs} jobs{per_job}"
    )


if __name__ == "__main__":
    main()
