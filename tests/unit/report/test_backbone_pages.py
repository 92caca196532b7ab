"""The page of each backbone: where it is best, how it stands to the best, what it was fed, costs, warnings."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from helpers.results.pages import build_report, prepare, small
from permafrost.core.tables import read_table, write_table
from permafrost.report.sections.backbone import backbone_sections
from permafrost.report.sections.run import backbone_facts

HOSTILE = "<b>&"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backbones")
    datasets = {name: small(name) for name in ("eurosat", "aid")}
    given = prepare(folder, datasets=datasets, backbones=["alpha", "beta", HOSTILE])
    unfit = {"dataset": "eurosat", "backbone": "alpha", "probe": "fine_tune", "reason": "no pixels"}
    given["plan"]["left_out"] = [unfit, {**unfit, "dataset": "far", "probe": None}]
    # alpha against the best: significantly worse with knn on eurosat alone
    for key, path in given["comparisons"].items():
        table, metadata = read_table(path)
        rows = table.to_pylist()
        for row in rows:
            first = {row["backbone_a"], row["backbone_b"]} == {"alpha", HOSTILE}
            row["difference"] = row["difference"] or 0.01
            row["p_adjusted"] = 0.01 if first and key == ("eurosat", "knn") else 0.5
        write_table(path, pa.Table.from_pylist(rows, schema=table.schema), {"fingerprint": "c"})
    build_report(**given)
    return given


def rows_of(report, name: str, section: str) -> list[str]:
    (path,) = (report["output_dir"] / "backbones").glob(f"{name}*.html")
    part = re.search(rf'<section id="{section}">(.*?)</section>', path.read_text(), re.S)[1]
    body = re.search(r"<tbody>(.*?)</tbody>", part, re.S)[1]
    rows = re.findall(r"<tr.*?</tr>", body, re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_where_it_is_best_is_counted_from_the_paired_comparisons(report):
    assert rows_of(report, "alpha", "wins") == [
        "knn 0 1 1 0 aid",
        "linear 0 2 0 0 aid, eurosat",
    ]


def test_scores_say_how_they_stand_to_the_best(report):
    lines = rows_of(report, "alpha", "scores")
    assert [line.split()[:2] for line in lines] == [
        [dataset, probe] for dataset in ("aid", "eurosat") for probe in ("knn", "linear")
    ]
    assert "worse than &lt;b&gt;&amp; (p = 0.010)" in lines[2]
    assert (
        "not significantly different from &lt;b&gt;&amp; (p = 0.500; finds 0.040 or more)"
        in lines[3]
    )
    best = rows_of(report, "b-", "scores")
    assert "best, not significantly different from beta" in best[2] and "alpha" not in best[2]
    assert "best, not significantly different from alpha, beta" in best[3]


def test_pages_say_what_was_left_out(report):
    folder = report["output_dir"]
    alpha = next((folder / "backbones").glob("alpha*.html")).read_text()
    assert "Datasets excluded because they do not fit: eurosat (fine_tune), far." in alpha
    eurosat = next((folder / "datasets").glob("eurosat*.html")).read_text()
    assert "Backbones excluded because they do not fit: alpha (fine_tune)." in eurosat
    index = (folder / "index.html").read_text()
    assert "not fit: 2 combinations of a backbone, a dataset" in index and 'id="left-out"' in index
    for other in ("backbones/beta*.html", "datasets/aid*.html"):
        assert "excluded because" not in next(folder.glob(other)).read_text()


def test_the_page_over_everything_leads_to_each(report):
    text = (report["output_dir"] / "index.html").read_text()
    pages = sorted(path.name for path in (report["output_dir"] / "backbones").iterdir())
    assert len(pages) == 3
    for name in pages:
        assert f'<a href="backbones/{name}">' in text
    assert HOSTILE not in text + "".join(
        path.read_text() for path in (report["output_dir"] / "backbones").iterdir()
    )


def score(backbone: str, **options) -> dict:
    return {"backbone": backbone, "dataset": "aid", "probe": "knn", "flags": [], **options}


def compared(other: str, difference: float, p: float, **options) -> dict:
    return {
        "probe": "knn", "best": "a", "other": other, "difference": difference, "p_adjusted": p,
        "p_text": str(p), "detectable": None, "confidence": 0.95, **options,
    }  # fmt: skip


def sections(comparisons=(), costs=None, made=(), flags=()) -> dict[str, dict]:
    dataset = {
        "name": "aid",
        "href": "datasets/aid.html",
        "lines": [score("a"), score("b", flags=list(flags))],
        "comparisons": list(comparisons),
        "costs": costs,
    }
    plan = {"backbones": {"a": {"parameters": 1234, "licence": "MIT"}}}
    facts = backbone_facts(plan["backbones"], [])
    return {one["name"]: one for one in backbone_sections(plan, [dataset], list(made), facts)}


def test_what_is_not_told_apart_says_what_could_be_found():
    found = sections([compared("b", 0.1, 0.2, detectable=0.15)])
    assert (
        found["b"]["lines"][0]["against"]
        == "not significantly different from a (p = 0.2; finds 0.150 or more)"
    )
    found = sections([compared("b", 0.1, float("nan"))])
    assert "against" not in found["b"]["lines"][0] or not found["b"]["lines"][0]["against"]
    found = sections([compared("b", 0.2, 0.02)])
    assert found["b"]["lines"][0]["against"] == "worse than a (p = 0.02)"
    assert found["a"]["lines"][0]["against"] == "best, significantly"
    assert found["a"]["wins"][0]["alone"] == 1 == found["b"]["wins"][0]["worse"]


def test_without_a_comparison_nobody_is_best():
    found = sections()
    assert found["a"]["wins"] == [
        {"probe": "knn", "alone": 0, "alike": 0, "worse": 0, "unknown": 1, "on": []}
    ]


def test_what_it_was_fed_is_said_once():
    fed = {
        "bands": ["B04", "B03", "B8A"], "zero_filled": ["B8A"], "size": 224, "crop": None,
        "interpolation": "bilinear", "normalization": "weights",
        "nearest": {"nir": {"band": "B08", "distance_nm": 3}},
    }  # fmt: skip
    made = [{"backbone": "a", "dataset": "aid", "input": fed}] * 2
    assert sections(made=made)["a"]["fed"] == [
        {
            "dataset": "aid",
            "bands": "B04, B03",
            "side": "224 pixels, bilinear",
            "normalization": "weights",
            "remarks": "filled with zeros: B8A; nearest in wavelength: B08 for nir",
        }
    ]
    assert sections(made=made)["b"]["fed"] == []
    # mean and deviation, where a feature store records them
    fed["as_fed"] = {"mean": [-0.214, 0.1, 0.0], "std": [0.9, 1.06, 0.0]}
    (line,) = sections(made=made)["a"]["fed"]
    assert line["bands"] == "B04 -0.21 ± 0.9, B03 0.1 ± 1.1"


def test_facts_costs_and_warnings():
    cell = {"value": 5.0, "text": "5", "interval": "", "flagged": False}
    costs = {
        "columns": [{"name": "parameters", "words": ""}],
        "lines": [{"backbone": "a", "cells": [cell]}],
    }
    found = sections(costs=costs, flags=[{"short": "not converged", "long": "Raise it."}])
    assert found["a"]["facts"][0] == ("parameters", "1,234")
    assert ("year", "not given") in found["a"]["facts"]
    assert found["a"]["costs"]["lines"][0]["cells"] == [cell] and found["b"]["costs"] is None
    assert found["b"]["warnings"] == [
        {"short": "not converged", "long": "Raise it.", "where": ["aid / knn"]}
    ]
    assert found["a"]["warnings"] == []
