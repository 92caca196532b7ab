"""CPU seconds and memory that planning a large catalogue costs, and those of an empty workflow with as many jobs.

    envs/run python benchmarks/dag.py [--sizes 100x22 100x33] [--repeats 3] [--only alone nothing everything job]

A size is backbones x datasets, each with four probes. The empty workflow (`PEER`) is one Snakefile without
configuration, package or functions. It has the same rules (prepare, extract, probe, bootstrap, compare,
aggregate, report, all), the same jobs with the same paths of inputs and outputs, the same wildcards, one
string as parameter, and a shell command. It has no logs, resources, threads, constraints of wildcards, and no
further rules. Targets and large inputs (all predictions of a dataset, all scores) are lists made by
comprehensions. Both are planned with the same options: those of profiles/default and profiles/local.

Printed are the reading of our Snakefile alone, a dry run with nothing done, and one with everything done: all outputs
are there, without Snakemake's own records; then the process that a cluster starts for one job (a dry run of it, one
bootstrap). Runs of the two alternate, each in a process of its own; the figures are medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml
from permafrost.core.stamps import write_stamp
from permafrost.plan.recorded import current_plan, read_plan, stamp_of, stamped

ROOT = Path(__file__).resolve().parents[1]
PROBES = {
    "knn": {"kind": "knn", "k": 5},
    "knn20": {"kind": "knn", "k": 20},
    "linear": {"kind": "linear"},
    "linear-standardized": {"kind": "linear", "standardize": True},
}
#: what profiles/default and profiles/local say
OPTIONS = (
    *("--cores", "all", "--resources", "gpu=1", "--keep-going", "--rerun-incomplete"),
    *("--scheduler", "greedy", "--rerun-triggers", "code", "input", "params", "software-env"),
)
PRINTED = ("alone", "nothing", "everything", "job")
DRY_RUN = ("-n", "--quiet", "all")
#: what a cluster's executor adds, as far as it has to do with planning
ONE_JOB = (
    *("--cores", "1", "--scheduler", "greedy", "--mode", "remote", "--force", "--nolock"),
    *("--target-jobs", "bootstrap:backbone=backbone-0,dataset=dataset-0,probe=knn,seed=0"),
    *("--allowed-rules", "bootstrap", *DRY_RUN),
)
#: as a run's first job would, which a dry run does not
RECORD = """
from pathlib import Path
from permafrost.plan.configured import read_configuration
from permafrost.plan.record import record_plan

record_plan(read_configuration(Path.cwd())[0], "results")
"""
GATHERED = ("leaderboard.parquet", "leaderboard.csv", "standings.parquet", "standings.csv")
PEER = """
BACKBONES = [f"backbone-{{i}}" for i in range({backbones})]
DATASETS = [f"dataset-{{i}}" for i in range({datasets})]
PROBES = {probes}


def every(stage):
    return [
        f"results/{{stage}}/{{d}}/{{b}}/seed0/{{p}}.parquet" for d in DATASETS for b in BACKBONES for p in PROBES
    ]


COMPARISONS = [f"results/comparisons/{{d}}/{{p}}.parquet" for d in DATASETS for p in PROBES]


rule all:
    input:
        {targets},
        every("predictions"),
        every("scores"),
        COMPARISONS,


rule prepare:
    output:
        train=directory("results/images/{{dataset}}/train.zarr"),
        val=directory("results/images/{{dataset}}/val.zarr"),
        test=directory("results/images/{{dataset}}/test.zarr"),
        card="results/images/{{dataset}}/card.json",
    params:
        job="prepare",
    shell:
        "prepare {{params.job}} {{output}}"


rule extract:
    input:
        "results/images/{{dataset}}/card.json",
    output:
        train=directory("results/features/{{dataset}}/{{backbone}}/train.zarr"),
        val=directory("results/features/{{dataset}}/{{backbone}}/val.zarr"),
        test=directory("results/features/{{dataset}}/{{backbone}}/test.zarr"),
    params:
        job="extract",
    shell:
        "extract {{params.job}} {{input}} {{output}}"


rule probe:
    input:
        train="results/features/{{dataset}}/{{backbone}}/train.zarr",
        val="results/features/{{dataset}}/{{backbone}}/val.zarr",
        test="results/features/{{dataset}}/{{backbone}}/test.zarr",
    output:
        "results/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    params:
        job="probe",
    shell:
        "probe {{params.job}} {{input}} {{output}}"


rule bootstrap:
    input:
        "results/predictions/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    output:
        "results/scores/{{dataset}}/{{backbone}}/seed{{seed}}/{{probe}}.parquet",
    params:
        job="bootstrap",
    shell:
        "bootstrap {{params.job}} {{input}} {{output}}"


rule compare:
    input:
        [f"results/predictions/{{{{dataset}}}}/{{b}}/seed0/{{{{probe}}}}.parquet" for b in BACKBONES],
    output:
        "results/comparisons/{{dataset}}/{{probe}}.parquet",
    params:
        job="compare",
    shell:
        "compare {{params.job}} {{input}} {{output}}"


rule aggregate:
    input:
        every("scores"),
    output:
        "results/leaderboard.parquet",
        "results/leaderboard.csv",
        "results/standings.parquet",
        "results/standings.csv",
        "{aggregated}",
    params:
        job="aggregate",
    shell:
        "aggregate {{params.job}} {{output}}"


rule report:
    input:
        "results/leaderboard.parquet",
        "results/standings.parquet",
        "{aggregated}",
        every("predictions"),
        every("scores"),
        COMPARISONS,
        [f"results/images/{{d}}/card.json" for d in DATASETS],
    output:
        "results/report/index.html",
        directory("results/report/figures"),
        directory("results/report/datasets"),
        directory("results/report/backbones"),
        "{reported}",
    params:
        job="report",
    shell:
        "report {{params.job}} {{output}}"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", default=["100x22", "100x33"], metavar="BxD")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=PRINTED, default=PRINTED)
    arguments = parser.parse_args()
    only = arguments.only
    for size in arguments.sizes:
        backbones, datasets = map(int, size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            ours = Project(Path(folder) / "ours", ["--profile", "profiles/local"])
            make_project(ours.folder, backbones, datasets)
            if "alone" in only:
                print(f"{size}: Snakefile alone  {shown(ours.run('--list'))}", flush=True)
            command = [sys.executable, "-c", RECORD]
            subprocess.run(command, cwd=ours.folder, env=ours.environment(), check=True)
            peer = Project(Path(folder) / "peer", OPTIONS)
            peer.folder.mkdir()
            (peer.folder / "Snakefile").write_text(peer_of(ours.folder, backbones, datasets))
            if "nothing" in only:
                compare(f"{size}: nothing done   ", ours, peer, arguments.repeats)
            create_outputs(ours.folder, peer.folder)
            if "everything" in only:
                compare(f"{size}: everything done", ours, peer, arguments.repeats)
            of_job = [Project(one.folder, []) for one in (ours, peer)]
            if "job" in only:
                compare(f"{size}: one job's start", *of_job, arguments.repeats, ONE_JOB)


def compare(
    label: str, ours: Project, peer: Project, repeats: int, command: Sequence[str] = DRY_RUN
) -> None:
    """Print both, and the ratio of CPU seconds and of peak memory."""
    runs = [(peer.run(*command), ours.run(*command)) for _ in range(repeats)]
    empty, full = (
        Figures(*map(statistics.median, zip(*side, strict=True)))
        for side in zip(*runs, strict=True)
    )
    if empty.jobs != full.jobs:
        raise SystemExit(f"{label}: {full.jobs:.0f} jobs, of the empty workflow {empty.jobs:.0f}")
    print(
        f"{label}  {full.jobs:.0f} jobs  ours {shown(full)}  empty {shown(empty)}  "
        f"ratio {full.cpu / empty.cpu:.2f} CPU, {full.memory / empty.memory:.2f} memory",
        flush=True,
    )


class Figures(NamedTuple):
    """CPU seconds, peak memory in MB, and the number of jobs planned."""

    cpu: float
    memory: float
    jobs: float


def shown(figures: Figures) -> str:
    return f"{figures.cpu:5.1f} s {figures.memory:4.0f} MB"


class Project(NamedTuple):
    """A folder with a Snakefile, and the options it is planned with."""

    folder: Path
    options: Sequence[str]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.folder / "workflow")}

    def run(self, *arguments: str) -> Figures:
        command = [sys.executable, "-m", "snakemake", *self.options, *arguments]
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment(), stdout=output, stderr=output
            )
            _, status, usage = os.wait4(process.pid, 0)
            output.seek(0)
            text = output.read()
        if status:
            raise SystemExit(text[-3000:])
        jobs = [line.split()[1] for line in text.splitlines() if line.startswith("total ")]
        cpu = usage.ru_utime + usage.ru_stime
        return Figures(cpu, usage.ru_maxrss / 1024, int(jobs[0]) if jobs else 0)


def make_project(folder: Path, backbones: int, datasets: int) -> None:
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


def peer_of(project: Path, backbones: int, datasets: int) -> str:
    """The Snakefile of the empty workflow."""
    aggregated, reported = stamps(project)
    targets = [
        *(f"results/{name}" for name in GATHERED),
        *("results/report/index.html", "results/report/figures", aggregated, reported),
    ]
    return PEER.format(
        backbones=backbones,
        datasets=datasets,
        probes=list(PROBES),
        targets=",\n        ".join(f'"{target}"' for target in targets),
        aggregated=aggregated,
        reported=reported,
    )


def recorded_plan(project: Path) -> dict:
    return read_plan(current_plan(project / "results"))


def stamps(project: Path) -> list[str]:
    """What `aggregate` and `report` leave of the plan."""
    return [str(stamp_of(Path("results"), made)) for made in stamped(recorded_plan(project))]


def create_outputs(ours: Path, *others: Path) -> None:
    """Make every output of the plan, in the order of the flow, in each of the folders."""
    paths = [row["path"] for row in recorded_plan(ours)["outputs"]]
    paths += [
        *(f"results/{name}" for name in GATHERED),
        *stamps(ours),
        "results/report/index.html",
    ]
    paths += [f"results/report/{name}/x" for name in ("figures", "datasets", "backbones")]
    for project in (ours, *others):
        for path in paths:
            target = project / path
            if target.suffix == ".zarr":
                target.mkdir(parents=True, exist_ok=True)
            elif target.suffix == ".done":
                # an empty one counts as damaged, and its job would run again
                write_stamp(target, target.stem, [])
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()


if __name__ == "__main__":
    main()
