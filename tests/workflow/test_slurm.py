"""The same job through a real one-node Slurm, which is installed and started for these tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("slurm")]

SCRIPT = Path(__file__).resolve().parents[1] / "slurm" / "slurm.sh"


@pytest.fixture(scope="module")
def slurm():
    """A running Slurm; skips where none can be installed, and says why."""
    if os.geteuid():
        pytest.skip("starting a Slurm needs root")
    if not shutil.which("apt-get"):
        pytest.skip("starting a Slurm needs Debian's package manager")
    started = subprocess.run(["bash", str(SCRIPT), "start"], capture_output=True, text=True)
    if started.returncode:
        pytest.skip(f"Slurm could not be started here: {started.stderr.strip()[-400:]}")
    yield
    subprocess.run(["bash", str(SCRIPT), "stop"], check=True)


def set_profile(project, **changes) -> None:
    """Change keys of profiles/slurm/config.yaml; a nested mapping is laid over the one there."""
    path = project.path("profiles/slurm/config.yaml")
    profile = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        profile[key] = {**profile[key], **value} if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(profile))


def test_slurm_gives_the_same_leaderboard_bit_for_bit(slurm, fresh_project, project):
    set_profile(fresh_project, **{"slurm-init-seconds-before-status-checks": 5, "latency-wait": 20})
    fresh_project.snakemake(profile="slurm")
    for name in ("results/leaderboard.csv", "results/leaderboard.parquet"):
        assert fresh_project.path(name).read_bytes() == project.path(name).read_bytes()
    log = fresh_project.path("results/logs/slurm")
    assert log.is_dir(), "the logs of Slurm's own are missing"


def test_a_job_out_of_time_is_retried_and_then_reported_by_name(slurm, project):
    project.config["extra_backbones"]["slow"] = {
        "kind": "entrypoint",
        "entrypoint": "slow.py:build",
        "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
    }
    project.path("slow.py").write_text(
        "import time\n\n\ndef build(*arguments, **options):\n    time.sleep(600)\n"
    )
    project.configure(backbones=["imagestats", "slow"])
    set_profile(
        project,
        retries=1,
        **{
            "slurm-init-seconds-before-status-checks": 5,
            "set-resources": {"extract": {"runtime": 1, "slurm_partition": "gpu", "gpu": 1}},
        },
    )
    done = project.snakemake(profile="slurm", check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "TIMEOUT" in output
    assert output.count("Trying to restart job") == 1
    assert "extract" in output and "slow" in output
    assert not project.path("results/features/tiny-landcover/slow/train.zarr").exists()


def test_a_cancelled_job_is_noticed_and_run_again(slurm, project):
    import threading
    import time

    shutil.rmtree(project.path("results/predictions"))
    shutil.rmtree(project.path("results/scores"))
    set_profile(project, **{"slurm-init-seconds-before-status-checks": 5})
    cancelled: list[str] = []

    def cancel_first_job():
        deadline = time.monotonic() + 120
        while not cancelled and time.monotonic() < deadline:
            listed = subprocess.run(
                ["squeue", "-h", "-o", "%i", "-t", "R"], capture_output=True, text=True
            ).stdout.split()
            if listed:
                subprocess.run(["scancel", listed[0]], check=True)
                cancelled.append(listed[0])
            time.sleep(0.2)

    thread = threading.Thread(target=cancel_first_job)
    thread.start()
    done = project.snakemake(profile="slurm")
    thread.join()
    output = done.stdout + done.stderr
    assert cancelled and "CANCELLED" in output and "Trying to restart job" in output
    assert project.pending() == {}
