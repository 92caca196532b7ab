"""Results that were deleted are made again; results that were edited are neither shown nor archived."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from helpers.project import Project
from permafrost.core.snakemake_internals import read_records

SCORE = "results/scores/tiny-landcover/imagestats/seed0/knn.parquet"
PREDICTION = "results/predictions/tiny-landcover/imagestats/seed0/knn.parquet"
COMPARISON = "results/comparisons/tiny-landcover/knn.parquet"
TABLES = [(name, end) for name in ("leaderboard", "standings") for end in ("parquet", "csv")]
# folders, and files in them
PAGES = ["index.html", "figures", "datasets", "backbones", "backbones/imagestats.html"]
# what may be deleted to free space
STORES = {"images", "features", "views", "masks"}
# what is deleted -> the jobs that the next run makes of it
LOST = {
    **{f"results/{name}.{ending}": {"aggregate": 1, "report": 1} for name, ending in TABLES},
    **{f"results/report/{name}": {"report": 1} for name in PAGES},
    COMPARISON: {"compare": 1, "report": 1},
    SCORE: {"bootstrap": 1, "aggregate": 1, "report": 1},
    PREDICTION: {
        "probe_embeddings": 1,
        "bootstrap": 1,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    },  # fmt: skip
}


def permafrost(project: Project, *arguments: str):
    environment = {**os.environ, "PYTHONPATH": str(project.path("workflow"))}
    command = [sys.executable, "-m", "permafrost.stages.cli", *arguments]
    return subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_every_result_that_was_deleted_is_made_again(project, tmp_path):
    before = project.path("results/leaderboard.csv").read_bytes()
    for name, jobs in LOST.items():
        shutil.move(project.path(name), tmp_path / "away")
        assert project.pending() == jobs, name
        shutil.move(tmp_path / "away", project.path(name))
    assert project.pending() == {}
    for name in LOST:
        path = project.path(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    project.snakemake()
    assert all(project.path(name).exists() for name in LOST)
    assert project.path("results/leaderboard.csv").read_bytes() == before
    assert project.pending() == {}


@pytest.mark.slow
def test_all_that_a_rule_promises_is_missed_but_for_stores(project):
    """Every output that a job of Snakemake's left is in `LOST`, or another of its kind is."""
    made = read_records(project.folder)
    kinds = {kind_of(path) for path in made if path.split("/")[1] not in STORES}
    assert kinds == {kind_of(path) for path in LOST} - {"pages of backbones"} | {"stamp"}
    for stamp in project.path("results/plans").glob("*.done"):
        content = stamp.read_bytes()
        stamp.unlink()
        assert "report" in project.pending(), stamp
        stamp.write_bytes(content)


def kind_of(path: str) -> str:
    """What a result is: its path for single ones, its folder for those of many jobs."""
    _, top, *rest = path.split("/")
    if path.endswith(".done"):
        return "stamp"
    if top == "report":
        return "pages of backbones" if rest[1:] else path
    return top


def test_stores_may_be_deleted(project):
    for store in project.path("results").rglob("*.zarr"):
        shutil.rmtree(store)
    assert project.pending() == {}


@pytest.mark.parametrize("edit", ["leaderboard.parquet", "leaderboard.csv", "report/index.html"])
@pytest.mark.slow
def test_an_edited_result_is_not_archived_and_the_remedy_makes_it_again(project, edit):
    path = project.path("results") / edit
    if path.suffix == ".parquet":
        pq.write_table(pq.read_table(path).slice(1), path)
        said = permafrost(project, "show")
        assert said.returncode == 1 and "altered since it was written" in said.stderr
        assert said.stdout == ""
    else:
        path.write_text(path.read_text().replace("0.", "1."))
    refused = project.snakemake("archive", check=False)
    assert refused.returncode != 0
    assert "altered since it was written" in refused.stdout + refused.stderr
    assert not list(project.path("results").glob("archive/*.zip"))
    assert permafrost(project, "stale", "--delete").returncode == 0
    assert project.pending()["report"] == 1
    # what is pending is made as after any other loss; once is enough
    if edit == "leaderboard.parquet":
        project.snakemake("archive")
        assert permafrost(project, "show").returncode == 0
        assert len(list(project.path("results").glob("archive/*.zip"))) == 1


def test_a_recorded_plan_that_was_truncated_is_mended_by_a_run_without_jobs(project):
    (plan,) = project.path("results/plans").glob("*.json")
    whole = plan.read_bytes()
    plan.write_bytes(whole[: len(whole) // 2])
    assert "run snakemake to record" in permafrost(project, "stale").stderr
    assert "Nothing to be done" in (done := project.snakemake()).stdout + done.stderr
    assert plan.read_bytes() == whole
    assert "everything under results" in permafrost(project, "stale").stdout
