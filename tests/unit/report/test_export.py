"""Tables for papers and rows of other benchmarks, from made results."""

from __future__ import annotations

import csv
import re
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from helpers.results.tables import make_comparison_table, make_score_rows, score_table
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import canonical_json
from permafrost.core.tables import KEY, write_table
from permafrost.report.tables.export import export, to_bibtex
from permafrost.report.tables.shown import Shown
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings, write_standings
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.published import TORCHGEO_BENCH

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
    # the last pair, b&b and c, does not differ significantly
    compared = make_comparison_table("d1", "knn", list(VALUES)).to_pylist()
    assert [row["p_adjusted"] <= 0.05 for row in compared] == [True, False, False]
    table = make_comparison_table("d1", "knn", list(VALUES))
    write_table(folder / "comparisons/d1/knn.parquet", table, about)
    return Shown.of(board, folder, about)


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


def test_a_pair_that_does_not_fit_says_why(shown):
    unfit = {"dataset": "d2", "backbone": "new", "probe": None, "reason": "no band 'nir'"}
    board = shown.leaderboard.filter(
        pc.or_(
            pc.not_equal(shown.leaderboard["backbone"], "c"),
            pc.equal(shown.leaderboard["dataset"], "d1"),
        )
    )
    rows = [row for row in shown.rows if (row["backbone"], row["dataset"]) != ("c", "d2")]
    left_out = [unfit, {**unfit, "backbone": "c"}, {**unfit, "dataset": "d1", "probe": "linear"}]
    less = replace(shown, leaderboard=board, rows=rows, left_out=left_out)
    lines = csv.DictReader(export(less, "csv", probe="knn").splitlines())
    found = {(one["backbone"], one["column"]): one for one in lines}
    assert found["c", "d2"]["left_out"] == "no band 'nir'" and found["c", "d2"]["value"] == ""
    assert found["c", "d1"]["left_out"] == found["b&b", "d2"]["left_out"] == ""
    said = "Excluded because they do not fit: new on d2, c on d2."
    assert said in export(less, "markdown", probe="knn")
    assert "new on d1" in export(less, "latex", probe="linear")
    # on a terminal, the reason stands in the line of the backbone
    blocks = {(one.head.partition(" (")[0]): one.lines for one in less.blocks()}
    lines = next(lines for head, lines in blocks.items() if head.startswith("d2 · knn"))
    assert [line[1] for line in lines] == ["backbone", "b&b", "a_1", "new", "c"]
    assert lines[-1][0] == "–" and lines[-1][-1] == "left out: no band 'nir'"
    # nothing is said where all pairs fit
    assert "left_out" not in export(shown, "csv") and "do not fit" not in export(shown, "markdown")


def test_standings_say_what_does_not_fit_a_dataset_of_their_group(tmp_path):
    tables = [
        score_table(
            make_score_rows(dataset="d1", backbone=name, value=value)
        ).replace_schema_metadata({KEY: canonical_json({})})
        for name, value in VALUES.items()
    ]
    left_out = [{"dataset": "d2", "backbone": "c", "probe": None, "reason": "no band 'nir'"}]
    about = {"fingerprint": "f", "stage": "aggregate", "left_out": left_out}
    options = {"groups": [["all", ["d1", "d2"]], ["mine", ["d1"]]]}
    options |= {"ranking": {"draws": 100}, "comparison": {"confidence": 0.95, "seed": 0}}
    places = tmp_path / "standings.parquet", tmp_path / "standings.csv"
    table = write_standings(tables, *places, about, options)
    said = dict(zip(table["group"].to_pylist(), table["unfit"].to_pylist(), strict=True))
    assert said == {"all": "c on d2: no band 'nir'", "mine": ""}


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


def test_every_form_says_what_training_has_seen(tmp_path, monkeypatch, capsys, shown):
    from permafrost.stages.cli import main

    gates = ["test_duplicates_in_train:3 of 6 test images (50 %)" if dataset == "d1" else ""
             for dataset in shown.leaderboard["dataset"].to_pylist()]  # fmt: skip
    place = shown.leaderboard.column_names.index("gates")
    board = shown.leaderboard.set_column(place, "gates", pa.array(gates, pa.string()))
    (tmp_path / "results").mkdir()
    write_table(tmp_path / "results/leaderboard.parquet", board, {"fingerprint": "f"})
    monkeypatch.chdir(tmp_path)
    said = "Leakage in d1: 3 of 6 test images (50 %) are duplicates of training images."
    for form, channel in (("markdown", "out"), ("csv", "out"), ("torchgeo-bench", "err")):
        assert main(["export", "--format", form]) == 0
        assert said in getattr(capsys.readouterr(), channel)
        assert main(["export", "--format", form, "--dataset", "d2"]) == 0
        shown_of_others = capsys.readouterr()
        assert "Leakage" not in shown_of_others.out + shown_of_others.err
