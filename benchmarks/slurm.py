"""What an evaluation (knn and its bootstrap) costs through a real one-node Slurm, with the profile as it stands.

    envs/run python benchmarks/slurm.py [--evaluations 16] [--folder DIR] [--local]

Needs root and Debian's slurm-wlm, which tests/slurm/slurm.sh installs and starts. Slurm's daemons, Snakemake and all
their children run in a cgroup of their own, so other processes of the machine do not count. Features exist before;
what is counted is `snakemake --profile slurm scores` from its start to its end. `--local` counts `--profile local`.
Results of both must be the same bytes: the digest of all scores is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from helpers.project import REPOSITORY, Project
from permafrost.core.identity import file_digest, fingerprint

SLURM = REPOSITORY / "tests" / "slurm" / "slurm.sh"
PROBES = 50  # of each backbone, at most


class Group:
    """A cgroup (version 1 or 2) that this process enters; counts CPU seconds of all in it."""

    def __init__(self) -> None:
        first = Path("/sys/fs/cgroup/cpuacct")
        root = first if first.is_dir() else Path("/sys/fs/cgroup")
        self.folder = root / f"permafrost-{os.getpid()}"
        self.folder.mkdir()
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self) -> float:
        usage = self.folder / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return int((self.folder / "cpu.stat").read_text().split()[1]) / 1e6

    def leave(self) -> None:
        """Move what still runs to the root, and remove the group."""
        while processes := (self.folder / "cgroup.procs").read_text().split():
            for process in processes:
                (self.folder.parent / "cgroup.procs").write_text(process)
        self.folder.rmdir()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="keep the project here")
    parser.add_argument("--local", action="store_true", help="run with --profile local")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        project = prepared(arguments.folder or Path(scratch) / "project", arguments.evaluations)
        measure(project, arguments.evaluations, "local" if arguments.local else "slurm")


def prepared(folder: Path, evaluations: int) -> Project:
    """A project with features of a small dataset for many backbones and probes."""
    backbones = max(4, evaluations // PROBES)
    if evaluations % backbones:
        raise SystemExit(f"--evaluations must be a multiple of {backbones}")
    project = Project(folder)
    project.config["extra_backbones"] = {
        f"rcf{number}": {"kind": "rcf", "features": 16, "seed": number}
        for number in range(backbones)
    }
    project.config["probes"] = {
        f"knn{k}": {"kind": "knn", "k": k} for k in range(1, evaluations // backbones + 1)
    }
    project.configure(backbones=list(project.config["extra_backbones"]))
    project.snakemake("features")
    return project


def measure(project: Project, evaluations: int, profile: str) -> None:
    group = Group()
    try:
        if profile == "slurm":
            # those that run already are not in the group
            subprocess.run(["bash", str(SLURM), "stop"], check=True)
            subprocess.run(["bash", str(SLURM), "start"], check=True)
        before, began = group.seconds(), time.monotonic()
        command = [sys.executable, "-m", "snakemake", "--profile", profile, "scores"]
        environment = {**os.environ, "PYTHONPATH": str(project.path("workflow"))}
        subprocess.run(command, cwd=project.folder, env=environment, check=True)
        took, wall = group.seconds() - before, time.monotonic() - began
        if profile == "slurm":
            subprocess.run(["bash", str(SLURM), "stop"], check=True)
    finally:
        group.leave()
    scores = sorted(project.path("results/scores").rglob("*.parquet"))
    assert len(scores) == evaluations
    digest = fingerprint([file_digest(path) for path in scores])
    print(
        f"{profile}: {evaluations} evaluations, {took:.1f} CPU s, {took / evaluations:.3f} each,"
        f" {wall:.0f} s; scores {digest[:16]}"
    )


if __name__ == "__main__":
    main()
