"""Backbones in environments of their own, in whole runs: two beside the main one, and one that cannot be installed."""

from __future__ import annotations

import shutil

import pytest
from helpers.environments import OWN, STAGES, add_small_and_broken, listed, living, write_lock
from helpers.project import Project
from permafrost.core.identity import file_digest

CONFIG = {
    "backbones": ["in-small", "in-pandas", "imagestats", "nowhere"],
    "extra_backbones": {
        "in-small": living("small", "pandas"),
        "in-pandas": living("pandas", "scipy"),
        "nowhere": living("broken", "scipy"),
    },
    "probes": {"knn": {"kind": "knn"}},
}
# the other jobs that load a backbone, of one in an environment of its own
EVERY_JOB = {
    "backbones": ["in-small"],
    "probes": {"fine-tune": {"kind": "fine_tune", "epochs": 1, "head_epochs": 1, "batch_size": 8}},
    "measures": {
        "names": ["alignment_augmentations"],
        "augmentations": {"views": 2, "images": 8},
    },
    "profile": {"batch_size": 4, "repeats": 3, "latency_repeats": 3, "warm_up": 1},
}
LEADERBOARD = "results/leaderboard.parquet"


def three_environments(folder) -> Project:
    """A project with the environments small, pandas and broken, of which nothing is installed."""
    project = Project(folder)
    write_lock(project.path("envs/pandas.lock"), listed(STAGES) | {"pandas"})
    add_small_and_broken(project)
    project.configure(**CONFIG)
    return project


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = three_environments(tmp_path_factory.mktemp("environments") / "project")
    project.done = project.snakemake(check=False)
    yield project
    # some gigabytes
    for place in project.folder.glob(".venv-*"):
        if place.is_dir():
            shutil.rmtree(place)


@pytest.mark.slow
def test_backbones_run_in_their_environments_and_one_that_fails_stops_no_other(finished):
    output = finished.done.stdout + finished.done.stderr
    assert finished.done.returncode != 0
    assert ": envs/broken.lock could not be installed" in output
    assert not finished.path(".venv-broken").exists()
    for backbone in ("in-small", "in-pandas", "imagestats"):
        assert finished.path(f"results/features/tiny-landcover/{backbone}/test.zarr").exists()
    scored = {row["backbone"] for row in finished.leaderboard()}
    assert scored == {"in-small", "in-pandas", "imagestats"}
    assert "nowhere" in finished.report_text()


@pytest.mark.slow
def test_what_is_installed_is_the_lock_and_a_second_run_installs_nothing(finished):
    for name in ("small", "pandas"):
        installed = finished.path(f".venv-{name}/permafrost.lock")
        assert file_digest(installed) == file_digest(finished.path(f"envs/{name}.lock"))
    finished.configure(**EVERY_JOB)
    again = finished.snakemake(LEADERBOARD)
    assert "installing" not in again.stdout + again.stderr
    assert finished.path("results/views/tiny-landcover/in-small.zarr").exists()
    assert {"fine-tune", "profile"} <= {row["probe"] for row in finished.leaderboard()}
    assert finished.pending("--", LEADERBOARD) == {}


@pytest.mark.slow
def test_deleted_images_are_made_again_in_the_main_environment(finished):
    shutil.rmtree(finished.path("results/images/tiny-landcover/train.zarr"))
    finished.snakemake("--forcerun", "extract", "--until", "extract")
    log = finished.path("results/logs/extract/tiny-landcover/in-small.log").read_text()
    assert (
        "tiny-landcover" in log
        and finished.path("results/images/tiny-landcover/train.zarr").is_dir()
    )


def test_jobs_of_a_conda_environment_need_snakemake_to_deploy_it(fresh_project):
    fresh_project.path("own.py").write_text(OWN)
    fresh_project.path("envs/forge.yaml").write_text("dependencies: [python =3.12]\n")
    fresh_project.configure(
        backbones=["imagestats", "there"],
        extra_backbones={"there": living("forge", "scipy")},
    )
    refused = fresh_project.snakemake("-n", check=False)
    output = refused.stdout + refused.stderr
    assert refused.returncode and "--software-deployment-method conda" in output
