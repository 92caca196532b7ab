"""Tables for papers and rows of other benchmarks, from made results."""

from __future__ import annotations

import csv
import re

import pytest
from helpers.results.tables import make_comparison_table, make_score_rows, score_table
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.tables import KEY, write_table
from permafrost.report.tables.export import TORCHGEO_BENCH, export, to_bibtex
from permafrost.report.tables.leaderboard import build_leaderboard
from permafrost.report.tables.shown import Shown
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings

VALUES = {"a_1": 0.4, "b&b": 0.6, "c": 0.9}


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    tables = [
        score_table(make_score_rows(dataset=dataset, backbone=name, probe=probe, value=value))
        for dataset, probe in (("d1", "knn"), ("d2", "knn"), ("d1", "linear"))
        for name, value in VALUES.items()
    ]
    about = {"fingerprint": "f", "stage": "aggregate"}
    board = build_leaderboard(tables)
    known = [table.replace_schema_metadata({KEY: canonical_json({})}) for table in tables]
    ranking = Ranking(groups={"all": ["d1", "d2"], "mine": ["d2"]}, draws=100)
    write_table(folder / "standings.parquet", build_standings(known, ranking), about)
    (folder / "comparisons/d1").mkdir(parents=True)
    # the last pair, b&b and c, is not told apart
    compared = make_comparison_table("d1", "knn", list(VALUES)).to_pylist()
    assert [row["p_adjusted"] <= 0.05 for row in compared] == [True, False, False]
    table = make_comparison_table("d1", "knn", list(VALUES))
    write_table(folder / "comparisons/d1/knn.parquet", table, about)
    return Shown.of(board, folder, fingerprint="f")


def test_csv_has_every_number_whole(shown):
    rows = list(csv.DictReader(export(shown, "csv", probe="knn", mark_tied=True).splitlines()))
    scores = {(row["backbone"], row["column"]): row for row in rows}
    assert {row["column"] for row in rows} == {"mean rank", "d1", "d2"}
    for name, value in VALUES.items():
        assert float(scores[name, "d1"]["value"]) == value
        assert float(scores[name, "d1"]["lower"]) == value - 0.02
    assert scores["c", "d1"]["best"] == "true" and scores["b&b", "d1"]["best"] == "false"
    # tied with the best of d1, where pairs were compared; of d2 nothing is known
    assert [scores[name, "d1"]["tied"] for name in VALUES] == ["true", "true", "false"]
    assert [scores[name, "d2"]["tied"] for name in VALUES] == ["false"] * 3
    assert [float(scores[name, "mean rank"]["value"]) for name in VALUES] == [3, 2, 1]
    assert "lower" not in export(shown, "csv", intervals=False).splitlines()[0]


def test_markdown(shown):
    text = export(shown, "markdown", probe="knn", mark_tied=True, intervals=False)
    assert text.splitlines()[0] == "| backbone | mean rank | d1 | d2 | letters |"
    assert text.splitlines()[2].startswith("| c | **1.00** | **0.900** | **0.900** |")
    assert "| b&b | 2.00 | <u>0.600</u> | 0.600 |" in text and "| a\\_1 |" in text
    assert "<u>" not in export(shown, "markdown", probe="knn")
    assert "0.900 [0.880, 0.920]" in export(shown, "markdown", probe="knn")


def test_latex_escapes_and_marks(shown):
    text = export(shown, "latex", mark_tied=True)
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 2  # knn and linear
    assert r"\textbf{0.900} {\footnotesize [0.880, 0.920]}" in text
    assert r"\underline{0.600}" in text
    assert r"a\_1" in text and r"b\&b" in text
    # what has a meaning in LaTeX is escaped, but where a cell ends
    body = re.sub(r"\\[&%$#_{}]", "", text.partition("\n")[2])
    assert "%" not in body and "_" not in body
    for line in body.splitlines():
        if line.endswith(r"\\") and r"\textbf" in line:
            assert line.count("&") in (1, 3)


def test_rows_of_torchgeo_bench(shown):
    rows = list(csv.DictReader(export(shown, "torchgeo-bench").splitlines()))
    assert list(rows[0]) == list(TORCHGEO_BENCH)
    assert len(rows) == 9
    row = next(
        row for row in rows if (row["dataset"], row["method"], row["name"]) == ("d1", "linear", "c")
    )
    assert (row["metric_name"], float(row["metric_value"]), float(row["ci_lower"])) == (
        "accuracy",
        0.9,
        0.88,
    )
    assert float(row["f1"]) and row["n_test"] == "200" and row["image_size"] == ""


def test_a_group_or_dataset_alone(shown):
    assert (
        export(shown, "markdown", group="mine", probe="knn").splitlines()[0] == "| backbone | d2 |"
    )
    assert (
        export(shown, "markdown", dataset="d1", probe="linear").splitlines()[0]
        == "| backbone | d1 |"
    )
    with pytest.raises(PermafrostError, match="no probe 'nn'"):
        export(shown, "markdown", probe="nn")
    with pytest.raises(PermafrostError, match="nothing to export"):
        export(shown, "markdown", dataset="d2", probe="linear")


def test_bibtex_has_what_entries_say():
    plan = {
        "backbones": {
            "net": {
                "title": "A {net}",
                "citation": "Doe & Roe 2020",
                "year": 2020,
                "url": "https://a.org/x_y",
            }
        },
        "datasets": {"silent": {}, "land": {"citation": "Somebody 1999"}},
    }
    text = to_bibtex(plan)
    assert (
        "@misc{backbone-net,\n  title = {A \\{net\\}},\n  note = {Doe \\& Roe 2020},\n  year = {2020},"
        in text
    )
    assert "url = {https://a.org/x_y}" in text and "@misc{dataset-land,\n  title = {land}" in text
    assert "silent" not in text
    assert text.count("{") == text.count("}")
    assert to_bibtex({"backbones": {}, "datasets": {}}) == ""


def test_the_command_writes_whole_files(tmp_path, monkeypatch, capsys, shown):
    from permafrost.stages.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    write_table(tmp_path / "results/leaderboard.parquet", shown.leaderboard, {"fingerprint": "f"})
    assert main(["export", "--format", "latex", "--output", "table.tex"]) == 0
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    assert main(["export", "--probe", "linear", "--no-intervals"]) == 0
    assert capsys.readouterr().out.startswith("| backbone | d1 |")
    # what to cite is in the plan, which is not there; nothing is written
    assert main(["export", "--output", "other.tex", "--bibtex", "c.bib"]) == 1
    assert "no plan was recorded" in capsys.readouterr().err
    assert not (tmp_path / "other.tex").exists() and not (tmp_path / "c.bib").exists()
