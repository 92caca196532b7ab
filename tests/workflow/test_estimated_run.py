"""Estimates and a real run: Snakemake's records say what every job took, and what is left to do."""

from __future__ import annotations

import copy
import json

import pytest
import yaml
from helpers.project import ONE_BACKBONE, TINY

pytestmark = pytest.mark.slow


def test_a_run_is_known_job_by_job_and_one_change_is_left_to_do(project):
    found = json.loads(project.permafrost("plan", "--json"))
    jobs = {row["stage"]: row["jobs"] for row in found["stages"]}
    assert found["seconds"] == 0 and all(row["to_do"] == 0 for row in found["stages"])
    assert all(row["took"] > 0 for row in found["stages"]), "of every stage, jobs are on record"
    assert 0 < found["seconds_that_jobs_ran"] <= sum(row["took"] for row in found["stages"])
    assert found["datasets"]["tiny-landcover"]["images"] == {"train": 60, "val": 24, "test": 36}
    last = project.permafrost("plan", "--check").splitlines()[-3]
    assert last.split()[:2] == ["all", str(sum(jobs.values()))]
    project.config["extra_backbones"]["tiny-network"]["input"]["size"] = 48
    project.configure()
    found = json.loads(project.permafrost("plan", "--json"))
    left = {row["stage"]: row["to_do"] for row in found["stages"] if row["to_do"]}
    probes = ONE_BACKBONE["probe_embeddings"]
    expected = {
        stage: count for stage, count in ONE_BACKBONE.items() if stage != "probe_embeddings"
    }
    assert left == {**expected, "probe": probes}
    assert project.pending() == ONE_BACKBONE


def test_the_demo_measures_a_machine_on_which_nothing_was_run(fresh_project):
    # a small demo, with every kind of job that is asked for below
    demo = yaml.safe_load(fresh_project.path("config/demo.yaml").read_text())
    land_cover = TINY["extra_datasets"]["tiny-landcover"]
    masks = {**copy.deepcopy(land_cover), "task": "segmentation"}
    demo["extra_datasets"] = {"tiny-landcover": land_cover, "tiny-segmentation": masks}
    demo |= {"backbones": ["imagestats"], "datasets": list(demo["extra_datasets"])}
    demo["probes"] = {name: demo["probes"][name] for name in ("knn", "linear", "seg-linear")}
    demo["probes"]["seg-linear"]["epochs"] = 1
    fresh_project.path("config/demo.yaml").write_text(yaml.safe_dump(demo))
    rates = fresh_project.path("rates.json")
    found = json.loads(
        fresh_project.permafrost("plan", "--measure", "--save-rates", str(rates), "--json")
    )
    measured = json.loads(rates.read_text())["corrections"]
    assert {"prepare", "extract", "knn", "linear", "segmentation", "bootstrap"} <= measured.keys()
    # the project's own jobs are to do, corrected by them
    assert all(row["to_do"] == row["jobs"] and row["took"] == 0 for row in found["stages"])
    given = json.loads(fresh_project.permafrost("plan", "--rates", str(rates), "--json"))
    assert given["seconds"] == found["seconds"]
