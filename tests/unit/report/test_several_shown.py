"""Curves of label shares, matrices of transfers, and portfolios: printed, drawn, and given to Python."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.plans import CONFIG, fill_root, make_plan
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import make_card, make_predictions, make_score_rows, score_table
from permafrost.core.tables import read_table, write_table
from permafrost.interface import Results
from permafrost.plan.record import record_plan
from permafrost.plan.recorded import current_plan, read_plan
from permafrost.report.sections.several import several_section
from permafrost.stages.cli import main
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.rows import overall
from permafrost.statistics.leaderboard.seeds import merge_seeds

COUNT = 120
SHARED = {name: {"pictures": name, "photos": name} for name in ("a", "b")}
ASKED = {
    "few": {"of": "pictures", "share": [0.1, 0.01]},
    "m": {"transfer": {"of": ["pictures", "photos"], "classes": SHARED}},
}
VALUES = {"stats": 0.5, "net": 0.9, "own": 0.7}
HARDER = {"few-1": 0.4, "few-10": 0.2, "m-photos-to-pictures": 0.3, "m-pictures-to-photos": 0.3}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Predictions and a leaderboard of a plan; all datasets have the same test images."""
    root = fill_root(tmp_path / "root")
    monkeypatch.chdir(root)
    config = copy.deepcopy(CONFIG)
    config["extra_datasets"]["photos"] = copy.deepcopy(config["extra_datasets"]["pictures"])
    config["datasets"] = ["pictures", "photos"]
    config["derived_datasets"] = ASKED
    plan = make_plan(root, config)
    record_plan(plan, "results")
    card, scores = make_card("pictures", classes=4, counts=(20, 20, COUNT)), []
    for row in read_plan(current_plan(root / "results"))["outputs"]:
        if row["stage"] != "probe":
            continue
        names = {name: row[name] for name in ("backbone", "probe", "seed")}
        value = VALUES[row["backbone"]] - HARDER.get(row["dataset"], 0)
        about = make_predictions(root / row["path"], card, **names, accuracy=value)
        path = about.pop("path")
        write_table(path, read_table(path)[0], {**about, "fingerprint": row["fingerprint"]})
        rows = make_score_rows(dataset=row["dataset"], **names, value=value)
        scores.append(score_table(rows))
    about = {"fingerprint": plan.aggregate().fingerprint, "derived_datasets": list(plan.origins)}
    write_table(root / "results/leaderboard.parquet", build_leaderboard(scores), about)
    return root / "results"


def right(results, dataset, backbone):
    found = Results(results).predictions(dataset, backbone, "knn", seed=0)
    return (found["target"] == found["prediction"]).to_numpy(float)


def shown(capsys, *options) -> str:
    assert main(["show", *options]) == 0
    return capsys.readouterr().out


def test_areas_are_those_of_the_kept_predictions(results, capsys):
    found = Results(results).areas.query("probe == 'knn'")
    assert found["backbone"].tolist() == ["net", "own", "stats"]
    assert set(found["curve"]) == {"few"} and set(found["of"]) == {"pictures"}
    for _, row in found.iterrows():
        names = {0.01: "few-1", 0.1: "few-10", 1.0: "pictures"}
        scores = {
            share: right(results, name, row["backbone"]).mean() for share, name in names.items()
        }
        assert row["scores"] == pytest.approx(scores)
        assert row["area"] == pytest.approx(np.trapezoid([*scores.values()], dx=0.5))
        assert row["lower"] < row["area"] < row["upper"] and row["letters"]
    said = shown(capsys, "--shares", "--probe", "knn")
    assert said.startswith("few · knn · accuracy with shares of the labels of pictures\n")
    header = said.splitlines()[1].split()
    assert header[:4] == ["backbone", "area", "interval", "letters"]
    assert f"net       {found['area'].iloc[0]:.3f}" in said and "linear" not in said


def test_transfers_are_matrices_with_differences_to_the_diagonal(results, capsys):
    found = Results(results).transfers.query("probe == 'knn' and backbone == 'net'")
    assert len(found) == 4
    for _, row in found.iterrows():
        own, value = (
            right(results, f"m-{train}-to-{row['test']}", "net")
            for train in (row["test"], row["train"])
        )
        assert row["loss"] == pytest.approx((own - value).mean())
        assert np.isnan(row["lower"]) == (row["train"] == row["test"])
    said = shown(capsys, "--transfers", "--probe", "knn")
    block = said[said.index("m · knn · accuracy · net") :].splitlines()
    assert block[1].split() == [
        "trained",
        "on",
        "tested",
        "on",
        "pictures",
        "tested",
        "on",
        "photos",
    ]
    (row,) = (
        row for _, row in found.iterrows() if (row["train"], row["test"]) == ("pictures", "photos")
    )
    assert f"{row['value']:.3f} (−{row['loss']:.3f} [" in block[2]


def test_a_run_without_them_says_what_to_add(results, capsys, tmp_path, monkeypatch):
    for options, problem in (
        (["--portfolios"], "no probe has three datasets"),
        (["--shares", "--transfers"], "--shares does not go with --transfers"),
        (["--shares", "--dataset", "pictures"], "--dataset does not go with --shares"),
        (["--transfers", "--probe", "lineal"], "these results have no probe 'lineal'"),
    ):
        assert main(["show", *options]) == 1
        assert problem in capsys.readouterr().err
    root = fill_root(tmp_path / "other")
    monkeypatch.chdir(root)
    plan = make_plan(root)
    record_plan(plan, "results")
    rows = make_score_rows(dataset="pictures", backbone="net", probe="knn", seed=0, value=0.5)
    about = {"fingerprint": plan.aggregate().fingerprint}
    write_table(root / "results/leaderboard.parquet", build_leaderboard([score_table(rows)]), about)
    for option, key in (("--shares", "share: .0.01"), ("--transfers", "transfer: .of")):
        assert main(["show", option]) == 1
        assert "no derived dataset of this run" in (said := capsys.readouterr().err), key
        assert "run snakemake" in said
    assert Results(root / "results").areas.empty and Results(root / "results").transfers.empty


def test_the_section_has_a_curve_per_probe_and_the_tables(results, tmp_path):
    known = Results(results)
    rows = merge_seeds(overall(read_table(results / "leaderboard.parquet")[0].to_pylist()))
    folder, read = tmp_path / "figures", known._several.runs
    folder.mkdir()
    blocks, figures = several_section(known.plan, rows, read, folder)
    heads = [block.head for block in blocks]
    assert sum(head.startswith("few · ") for head in heads) == len(figures) > 0
    assert sum(head.startswith("m · ") for head in heads) == len(VALUES) * len(figures)
    assert {path.name for path in folder.iterdir()} == {figure.path.name for figure in figures}
    assert several_section({**known.plan, "datasets": {}}, rows, read, folder) == ([], [])
    many = [{**row, "n_test": 100_000} for row in rows]
    assert several_section(known.plan, many, None, folder) == ([], [])


def test_the_pages_show_ensembles_and_portfolios(tmp_path):
    cards = {name: small(name, counts=(40, 20, 80)) for name in ("one", "two", "three")}
    build_report(**prepare(tmp_path, datasets=cards, backbones=["net", "own"]))
    text = (tmp_path / "report/datasets/one.html").read_text()
    assert '<section id="ensembles">' in text and '<a href="#ensembles">' in text
    assert "averaged probabilities, pairs" in text and "net + own" in text
    entrance = (tmp_path / "report/index.html").read_text()
    assert '<section id="portfolios">' in entrance and "what the best of a set loses" in entrance
    assert 'id="several"' not in entrance
