"""Kills, full disks and damaged stores: nothing half-written remains, and the run continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from project import Project


def outputs_of(project: Project, folder: str) -> set[str]:
    base = project.path("results") / folder
    return {str(p.relative_to(base)) for p in base.rglob("*") if p.is_dir() or p.is_file()}


def start(project: Project) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(project.path("workflow"))}
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--profile", "local"],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill_when(project: Project, condition) -> None:
    process = start(project)
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, "the run ended before the moment of the kill"
        assert time.monotonic() < deadline, "the moment of the kill never came"
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("stage", ["extract", "linear"])
def test_a_run_killed_with_minus_9_is_continued_to_the_same_result(fresh_project, project, stage):
    folders = {"extract": "features/tiny-landcover/tiny-network", "linear": "predictions"}
    running = {
        "extract": lambda: any(
            (fresh_project.path("results") / folders["extract"]).glob(".*.partial-*")
        ),
        "linear": lambda: any(fresh_project.path("results/logs/probe").rglob("linear.log")),
    }
    kill_when(fresh_project, running[stage])
    finished = [n for n in outputs_of(fresh_project, folders[stage]) if not n.startswith(".")]
    assert not [n for n in finished if n.endswith("linear.parquet")] or stage == "extract"
    fresh_project.snakemake("--unlock")
    fresh_project.snakemake()
    assert not [n for n in outputs_of(fresh_project, ".") if ".partial-" in n]
    name = "results/leaderboard.csv"
    assert fresh_project.path(name).read_bytes() == project.path(name).read_bytes()


def test_a_full_disk_during_extraction_is_named_and_leaves_nothing(project, small_disk):
    disk = small_disk(96)
    features = project.path("results/features/tiny-landcover/tiny-network")
    subprocess.run(["rm", "-rf", str(features)], check=True)
    features.symlink_to(disk, target_is_directory=True)
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 40
    project.configure()
    done = project.snakemake(check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "disk" in output.lower() and "tiny-network" in output
    assert not [p for p in disk.rglob("*") if p.is_file()]
    features.unlink()
    project.snakemake()
    assert project.pending() == {}


def test_a_flipped_byte_in_a_feature_store_is_refused_by_name(project):
    store = project.path("results/features/tiny-landcover/tiny-network/train.zarr")
    (chunk,) = [p for p in (store / "embeddings" / "c").rglob("*") if p.is_file()]
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    project.config["probes"]["knn"] = {"kind": "knn", "k": 3}
    project.configure()
    done = project.snakemake(check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert (
        "tiny-network/train.zarr" in output and "damaged" in output and "delete the store" in output
    )
    other = project.path("results/predictions/tiny-landcover/imagestats/seed0/knn.parquet")
    assert other.exists(), "the other backbone's work must go on"
    subprocess.run(["rm", "-rf", str(store)], check=True)
    project.snakemake()
    assert project.pending() == {}
