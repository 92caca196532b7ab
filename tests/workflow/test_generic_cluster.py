"""profiles/generic: the run through commands that submit, watch and cancel jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from helpers.batch import Batch
from helpers.project import asked_of_a_chain

SLEEPS = "import time\n\n\ndef build(*arguments, **options):\n    time.sleep(600)\n"
FAILS = "def build(*arguments, **options):\n    raise ValueError('it has no layers')\n"
SOONER = {"latency-wait": 20, "seconds-between-status-checks": 1}


@pytest.fixture
def batch(tmp_path):
    return Batch(tmp_path / "batch")


def add_backbone(project, name: str, source: str) -> None:
    project.path(f"{name}.py").write_text(source)
    project.config["extra_backbones"][name] = {
        "kind": "entrypoint",
        "entrypoint": f"{name}.py:build",
        "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
    }
    project.configure(backbones=["imagestats", name])


@pytest.mark.slow
def test_a_run_gives_the_same_leaderboard_and_jobs_ask_for_what_rules_say(
    batch, fresh_project, project
):
    fresh_project.set_profile("generic", **batch.settings, **SOONER)
    done = fresh_project.snakemake(profile="profiles/generic")
    for name in ("results/leaderboard.csv", "results/leaderboard.parquet"):
        assert fresh_project.path(name).read_bytes() == project.path(name).read_bytes()
    asked = batch.asked()
    (prepare,) = [one for one in asked if one["rule"] == "prepare"]
    assert {key: prepare[key] for key in ("threads", "mem_mb", "minutes", "gpu")} == {
        "threads": "2",
        "mem_mb": "4000",
        "minutes": "120",
        "gpu": "0",
    }
    assert [one["gpu"] for one in asked if one["rule"] == "extract"] == ["1", "1"]
    # one for each backbone and probe
    chains = [(one["mem_mb"], one["minutes"]) for one in asked if one["rule"] != "compare"]
    for kind in ("knn", "linear"):
        assert chains.count(tuple(map(str, asked_of_a_chain(kind)))) == 2
    assert "with external jobid" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_job_that_fails_is_tried_again_with_more_and_named_with_its_log(batch, project):
    add_backbone(project, "broken", FAILS)
    project.set_profile("generic", **batch.settings, retries=1, **SOONER)
    done = project.snakemake("features", profile="profiles/generic", check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 1
    assert (
        "Error in rule extract tiny-landcover broken: " in output and "it has no layers" in output
    )
    assert "log: results/logs/extract/tiny-landcover/broken.log" in output
    tried = [(one["mem_mb"], one["minutes"]) for one in batch.asked() if one["rule"] == "extract"]
    assert sorted(tried) == [("12000", "240"), ("6000", "120")]


@pytest.mark.slow
def test_an_interrupted_run_cancels_its_jobs(batch, project):
    add_backbone(project, "slow", SLEEPS)
    project.set_profile("generic", **batch.settings, **SOONER)
    run = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--profile", "profiles/generic", "features"],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": str(project.path("workflow"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a shell in whose background the tests run has them ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    log = project.path("results/logs/extract/tiny-landcover/slow.log")
    deadline = time.monotonic() + 120
    while not (batch.asked() and log.exists()):
        assert run.poll() is None, run.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(5)  # the executor has taken note of the job
    os.kill(run.pid, signal.SIGINT)
    said, _ = run.communicate(timeout=120)
    assert run.returncode
    (job,) = batch.asked()
    assert batch.cancelled() == [job["number"]], said
    while batch.runs(job["number"]):
        assert time.monotonic() < deadline + 60
        time.sleep(0.1)
    assert "job failed" not in said and "jobs failed" not in said


def test_a_command_that_is_not_here_is_named(project):
    project.config["probes"]["knn"] = {"kind": "knn", "k": 3}
    project.configure()
    project.set_profile("generic", **{"cluster-generic-submit-cmd": "no-such-command --now"})
    done = project.snakemake(profile="profiles/generic", check=False)
    output = done.stdout + done.stderr
    assert done.returncode
    assert "cluster-generic-submit-cmd: there is no no-such-command on the PATH" in output
    assert "profiles/generic/config.yaml" in output


@pytest.mark.parametrize("profile", ["generic", "kubernetes"])
def test_a_plugin_that_is_not_here_is_named_with_how_to_install_it(project, profile):
    hooks = project.path("hooks")
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "found = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if 'executor_plugin' in name else found(name, *more)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", f"profiles/{profile}", "-n"],
        cwd=project.folder,
        env={**os.environ, "PYTHONPATH": f"{hooks}{os.pathsep}{project.path('workflow')}"},
        capture_output=True,
        text=True,
    )
    (package,) = {
        "generic": ["snakemake-executor-plugin-cluster-generic"],
        "kubernetes": ["snakemake-executor-plugin-kubernetes"],
    }[profile]
    assert done.returncode
    assert f"this profile needs {package}. Remedy: " in done.stderr
    assert f"pip install {package}" in done.stderr and "Traceback" not in done.stderr


def test_every_option_of_the_profiles_is_one_of_snakemake_or_its_plugins(project):
    known = subprocess.run(
        [sys.executable, "-m", "snakemake", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for profile in ("generic", "kubernetes", "slurm"):
        keys = yaml.safe_load(project.path(f"profiles/{profile}/config.yaml").read_text())
        unknown = [key for key in keys if key[:2] != "__" and f"--{key}" not in known]
        assert unknown == []
