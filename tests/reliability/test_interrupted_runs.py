"""Kills, full disks and damaged stores: nothing half-written remains, and the run continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.project import Project

# Put before every Python that a run starts: `permafrost STAGE` stops for good when it calls FUNCTION,
# and says so. The library itself stays as it is, and with it the identity of every result.
HOLD = """
import os, sys, time
from pathlib import Path

stage, function, arrived = os.environ["HOLD"].split(":")

def hold(frame, event, argument):
    if event == "call" and frame.f_code.co_name == function and "permafrost" in frame.f_code.co_filename:
        Path(arrived).touch()
        time.sleep(600)

if sys.orig_argv[2:3] == [stage]:
    sys.setprofile(hold)
"""


SCORE = "results/scores/tiny-landcover/imagestats/seed0/linear.parquet"


def kill_during(project: Project, stage: str, function: str) -> None:
    """Make `SCORE`, and kill the run and all its children with -9 while a `stage` job is inside `function`."""
    hooks, arrived = project.path("hooks"), project.path(f"arrived-{stage}-{function}")
    hooks.mkdir(exist_ok=True)
    (hooks / "sitecustomize.py").write_text(HOLD)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (hooks, project.path("workflow")))),
        "HOLD": f"{stage}:{function}:{arrived}",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--profile", "local", SCORE],
        cwd=project.folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 300
        while not arrived.exists():
            assert process.poll() is None, f"the run ended before {function} was called"
            assert time.monotonic() < deadline, f"{function} was never called"
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    project.snakemake("--unlock")


def names_below(project: Project, folder: str) -> set[str]:
    base = project.path("results") / folder
    return {str(path.relative_to(base)) for path in base.rglob("*")}


@pytest.mark.slow
def test_a_run_killed_with_minus_9_again_and_again_ends_with_the_same_result(
    fresh_project, project
):
    # the hook holds a process that starts, not a fork
    fresh_project.configure(runtime={**fresh_project.config["runtime"], "light_jobs": "process"})
    # inside a store of features, whose first chunk is being written
    kill_during(fresh_project, "extract", "_flush")
    stores = names_below(fresh_project, "features")
    assert any(".train.zarr.partial-" in name for name in stores)
    assert not any(name.endswith("/train.zarr") for name in stores)

    # inside the fit of a linear probe
    kill_during(fresh_project, "linear", "minimise")
    assert not any(name.endswith("linear.parquet") for name in names_below(fresh_project, ""))

    # after the predictions were written, before they took their place
    kill_during(fresh_project, "linear", "_sync")
    tables = names_below(fresh_project, "predictions")
    assert any(".linear.parquet.partial-" in name for name in tables)
    assert not any(name.endswith("/linear.parquet") for name in tables)

    fresh_project.snakemake(SCORE)
    assert not [name for name in names_below(fresh_project, "") if ".partial-" in name]
    for name in (SCORE, SCORE.replace("scores", "predictions")):
        assert fresh_project.path(name).read_bytes() == project.path(name).read_bytes()
    made, whole = fresh_project.stores(), project.stores()
    assert made == {path: whole[path] for path in made}
    assert fresh_project.pending("--", SCORE) == {}


@pytest.mark.slow
def test_a_full_disk_during_extraction_is_named_and_leaves_nothing(project, small_disk):
    disk = small_disk(96)
    features = project.path("results/features/tiny-landcover/tiny-network")
    subprocess.run(["rm", "-rf", str(features)], check=True)
    features.symlink_to(disk, target_is_directory=True)
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 40
    project.configure()
    done = project.snakemake("features", check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "tiny-network/" in output and "No space left on device" in output
    assert "Remedy: free space" in output
    assert not [p for p in disk.rglob("*") if p.is_file()]
    features.unlink()
    project.snakemake("features")
    assert project.pending("--", "features") == {}


@pytest.mark.slow
def test_a_flipped_byte_in_a_feature_store_is_refused_by_name(project):
    store = project.path("results/features/tiny-landcover/tiny-network/train.zarr")
    (chunk,) = [p for p in (store / "embeddings" / "c").rglob("*") if p.is_file()]
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    project.config["probes"]["knn"] = {"kind": "knn", "k": 3}
    project.configure()
    done = project.snakemake("predictions", check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert (
        "tiny-network/train.zarr" in output and "damaged" in output and "delete the store" in output
    )
    other = project.path("results/predictions/tiny-landcover/imagestats/seed0/knn.parquet")
    assert other.exists(), "the other backbone's work must go on"
    subprocess.run(["rm", "-rf", str(store)], check=True)
    project.snakemake("predictions")
    assert project.pending("--", "predictions") == {}
