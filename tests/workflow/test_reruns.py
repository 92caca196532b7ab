"""Reruns follow content: what changes a number runs again, and nothing else does."""

from __future__ import annotations

import os
import shutil

import pytest
from helpers.project import ONE_BACKBONE


def test_a_finished_run_has_nothing_left_to_do(project):
    assert project.pending() == {}


def test_changing_a_backbones_entry_reruns_its_jobs_only(project):
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 48
    project.configure()
    assert project.pending() == ONE_BACKBONE


def test_what_changes_no_number_reruns_nothing(project):
    config = project.config
    network = dict(reversed(config["extra_backbones"]["tiny-network"].items()))
    network |= {"title": "Another title", "runtime": {"batch_size": 3}}
    config["bootstrap"].update(confidence=0.950)
    project.configure(
        runtime={"device": "cpu", "batch_size": 5, "workers": 1, "parts": 3},
        backbones=config["backbones"][::-1],
        extra_backbones={"tiny-network": network},
        data="elsewhere",
    )
    path = project.path("config/config.yaml")
    path.write_text("# a remark\n" + path.read_text())
    for folder, ending in (("workflow", "py"), ("results", "parquet")):
        for file in project.path(folder).rglob(f"*.{ending}"):
            os.utime(file)
    done = project.snakemake(
        "-n", "--cores", "1", "--set-threads", "probe_embeddings=1", "extract=1"
    )
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_another_device_reruns_nothing(project, device):
    project.configure(runtime={**project.config["runtime"], "device": device})
    assert project.pending() == {}
    # while each command would be told of it
    said = project.snakemake("-n", "--forcerun", "extract", "--printshellcmds").stdout
    assert f"--device {device}" in said


def test_adding_a_backbone_runs_its_jobs_only(project):
    project.configure(backbones=[*project.config["backbones"], "rcf"])
    assert project.pending() == ONE_BACKBONE


def test_removing_a_backbone_runs_the_summaries_only(project):
    project.configure(backbones=["imagestats"])
    assert project.pending() == {"aggregate": 1, "report": 1}


def test_a_probe_option_reruns_that_probe_only(project):
    project.config["probes"]["knn"] = {"kind": "knn", "k": 3}
    project.configure()
    assert project.pending() == {
        "probe_embeddings": 2,
        "bootstrap": 2,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    }


def test_editing_a_module_reruns_the_stages_that_use_it(project):
    with project.path("workflow/permafrost/probes/knn/search.py").open("a") as stream:
        stream.write("\nCHANGED = True\n")
    assert project.pending() == {
        "probe_embeddings": 2,
        "bootstrap": 2,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    }


@pytest.mark.slow
def test_pruned_stores_rerun_nothing_and_are_made_again_for_the_job_that_needs_them(project):
    shutil.rmtree(project.path("results/features"))
    for store in project.path("results/images").rglob("*.zarr"):
        shutil.rmtree(store)
    assert project.pending() == {}
    untouched = project.path("results/predictions/tiny-landcover/imagestats/seed0/linear.parquet")
    before = untouched.stat().st_mtime_ns
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 48
    project.configure()
    assert project.pending() == ONE_BACKBONE
    project.snakemake("results/leaderboard.parquet")
    assert untouched.stat().st_mtime_ns == before
    assert project.path("results/images/tiny-landcover/train.zarr").is_dir()
    assert project.pending() == {"compare": 2, "report": 1}


def test_a_table_or_page_that_is_asked_for_by_name_is_that_of_the_plan(project):
    """Snakemake has no record of this plan's stamp, and none of tables that `permafrost incomplete` wrote."""
    targets = {"leaderboard.csv": "aggregate", "report/index.html": "report"}
    assert project.pending("--", *(f"results/{target}" for target in targets)) == {}
    project.configure(probes={**project.config["probes"], "knn-of-3": {"kind": "knn", "k": 3}})
    for _ in range(2):
        for target, rule in targets.items():
            pending = project.pending("--", f"results/{target}")
            assert pending["probe_embeddings"] == 2 and pending[rule] == 1
        shutil.rmtree(project.path(".snakemake"))


def test_a_changed_dataset_reruns_everything_of_it_in_one_go(project):
    project.config["extra_datasets"]["tiny-landcover"]["source"]["seed"] = 7
    project.configure()
    assert project.pending() == {
        "prepare": 1,
        "extract": 2,
        "probe_embeddings": 4,
        "bootstrap": 4,
        "compare": 2,
        "aggregate": 1,
        "report": 1,
    }


@pytest.mark.slow
def test_without_snakemakes_records_a_stale_score_is_refused_by_name_until_it_is_deleted(project):
    shutil.rmtree(project.path(".snakemake"))
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 48
    project.configure()
    done = project.snakemake(check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "results/scores/tiny-landcover/tiny-network/seed0/" in output
    assert "another plan" in output and "run `permafrost stale --delete`" in output
    assert "imagestats" not in project.permafrost("stale", "--delete")
    project.snakemake()
    assert project.pending() == {}
