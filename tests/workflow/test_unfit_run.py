"""A whole run with a pair that does not fit: the others end in one table, with the reason in its cell."""

from __future__ import annotations

import csv
import json

import pytest
from helpers.project import TINY


@pytest.mark.slow
def test_a_pair_that_does_not_fit_is_a_cell_of_the_table(fresh_project):
    project = fresh_project
    narrow = json.loads(json.dumps(TINY["extra_datasets"]["tiny-landcover"]))
    narrow["source"]["bands"] = ["B02", "B03", "B04"]
    project.configure(
        backbones=["imagestats", "edge", "twin"],
        datasets=["tiny-landcover", "tiny-narrow"],
        extra_backbones={
            "edge": {"kind": "imagestats", "input": {"bands": ["B04", "nir"]}},
            "twin": {"kind": "imagestats"},
        },
        extra_datasets={**TINY["extra_datasets"], "tiny-narrow": narrow},
        probes={"knn": {"kind": "knn"}},
        report={"examples": 2},
    )
    done = project.snakemake()
    reason = "no band 'nir'"
    assert "1 of 6 pairs" in done.stderr and reason in done.stderr
    scored = {
        (row["dataset"], row["backbone"]) for row in project.leaderboard() if row["probe"] == "knn"
    }
    assert len(scored) == 5 and ("tiny-narrow", "edge") not in scored
    shown = project.permafrost("show", "--dataset", "tiny-narrow")
    (line,) = [line for line in shown.splitlines() if "edge" in line]
    assert "left out: " in line and reason in line
    with open(project.path("results/standings.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "all"]
    assert all(reason in row["unfit"] for row in rows)
    assert {row["same_as"] for row in rows} == {"twin=imagestats"}
    (line,) = [line for line in shown.splitlines() if "twin" in line]
    assert line.endswith("same as imagestats")
    page = project.report_text()
    assert "does not fit" in page and "twin is the same as imagestats" in page
    assert project.pending() == {}
    # another policy feeds the pair, and reruns nothing that fits already
    project.configure(fit="authors")
    again = project.pending()
    assert again.get("extract") == 1, again
    project.snakemake()
    shown = project.permafrost("show")
    assert "Ranked on exact cells alone (datasets: tiny-landcover; 3 of 3 backbones)" in shown
    assert "adapted by the policy authors" in shown and "of 2 bands" in shown
    page = project.report_text()
    assert "Ranked on exact cells alone" in page and "adapted by the policy authors" in page
