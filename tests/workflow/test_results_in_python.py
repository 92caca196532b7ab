"""The results of a finished run as data frames and arrays."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import permafrost as pf
import pytest
from permafrost.core.errors import PermafrostError
from permafrost.statistics.scores.score_table import bootstrap_seed


def test_a_finished_run_is_read_wherever_it_lies(project, tmp_path):
    folder = tmp_path / "moved"
    shutil.copytree(project.path("results"), folder)
    results = pf.Results(folder)
    board = results.leaderboard
    assert set(board["backbone"]) == set(results.backbones)
    assert set(board["dataset"]) == set(results.datasets)
    text = pd.read_csv(folder / "leaderboard.csv")
    chosen = text[text["primary"] & text["class"].isna() & text["setting"].isna()]
    assert sorted(board["value"]) == pytest.approx(sorted(chosen["value"]))
    assert (
        board["rank"].tolist() == board.sort_values(["dataset", "probe", "rank"])["rank"].tolist()
    )
    assert len(results.standings) == len(pd.read_csv(folder / "standings.csv"))
    assert {"difference", "p_adjusted"} <= set(results.comparisons.columns)
    assert "<table" in results._repr_html_() and "backbones" in repr(results)

    row = board[board["probe"].isin(["knn", "linear"])].iloc[0]
    found = results.predictions(row["dataset"], row["backbone"], row["probe"])
    if row["metric"] == "accuracy":
        share = (found["target"] == found["prediction"]).mean()
        assert share == pytest.approx(row["value"])
    train = results.features(row["dataset"], row["backbone"], "train")
    assert len(train.x) == len(train.y) == len(train.samples) and train.x.dtype == np.float32
    again = pf.evaluate(
        found["target"].to_numpy(),
        found["prediction"].to_numpy(),
        groups=found["group_id"].tolist(),
    )
    assert row["value"] == pytest.approx(again[again["metric"] == row["metric"]].iloc[0]["value"])


@pytest.mark.parametrize("probe", ["knn", "linear"])
def test_differences_of_predictions_are_those_of_the_run(project, probe):
    results = pf.Results(project.path("results"))
    (dataset,) = results.datasets
    stage = results.comparisons.query(f"probe == '{probe}' and metric == 'accuracy'")
    tables = [results.predictions(dataset, name, probe) for name in results.backbones]
    scores = [np.stack(one["scores"]) for one in tables]
    found = pf.compare(
        tables[0]["target"].to_numpy(),
        dict(zip(results.backbones, scores, strict=True)),
        groups=tables[0]["group_id"].tolist(),
        classes=range(scores[0].shape[1]),
        seed=bootstrap_seed(dataset, 0),
    )
    stage = stage.rename(columns={"backbone_a": "a", "backbone_b": "b"})
    numbers = ["difference", "lower", "upper", "p_value", "p_adjusted"]
    for column in ["a", "b", *numbers, "unit", "n_units", "n_test", "gates"]:
        assert found[column].tolist() == stage[column].tolist(), column


def test_judged_labels_are_those_of_the_command(project, tmp_path):
    table = tmp_path / "labels.csv"
    (said,) = json.loads(project.permafrost("labels", "--json", "--output", str(table)))
    results = pf.Results(project.path("results"))
    found = results.labels("tiny-landcover")
    rows = pd.read_csv(table)
    # images with one class are not judged label by label
    assert rows["label"].isna().all() and found.images["label"].isna().all()
    one, other = (frame.drop(columns="label") for frame in (rows, found.images))
    pd.testing.assert_frame_equal(one, other, check_dtype=False)
    assert rows["suspect"].sum() == found.summary["suspects"] == len(said["suspected"])
    assert {**said, **found.summary} == said and found.summary["images"] == len(rows) == 36
    board = results.leaderboard.query("probe == 'linear'").set_index("backbone")["value"]
    assert found.backbones.set_index("backbone")["accuracy"].to_dict() == pytest.approx(
        board.to_dict()
    )
    printed = project.permafrost("labels", "--probe", "knn", "--backbones", "imagestats")
    assert "labels suspected" in printed and "only test images are judged" in printed
    assert "one backbone takes its own errors for wrong labels" in printed
    with pytest.raises(
        PermafrostError, match="no predictions on tiny-landcover of the probe 'mlp'"
    ):
        results.labels("tiny-landcover", probe="mlp")


def test_a_name_that_the_run_has_not_is_refused_with_those_that_it_has(project):
    results = pf.Results(project.path("results"))
    dataset, backbone = results.datasets[0], results.backbones[0]
    with pytest.raises(PermafrostError, match="the run has no dataset 'nowhere'"):
        results.features("nowhere", backbone)
    with pytest.raises(PermafrostError, match="no split 'tst', did you mean 'test'"):
        results.features(dataset, backbone, "tst")
    with pytest.raises(PermafrostError, match="no plan was recorded"):
        pf.Results(project.path("nothing"))


def test_the_figures_are_those_of_the_report(project, tmp_path):
    results = pf.Results(project.path("results"))
    for name in ("ranked", "probes"):
        plot = getattr(results, f"plot_{name}")(probe="knn")
        still = project.path(f"results/report/figures/{name}__knn.svg").read_text()
        plot.save(tmp_path / "figure.svg")
        assert (tmp_path / "figure.svg").read_text() == still == plot._repr_svg_()
    plot = results.plot_ranked()
    points = [row for row in plot.specification["datasets"]["points"] if row["probe"] == "linear"]
    assert {row["backbone"] for row in points} == set(results.backbones)
    for form, start in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("json", b"{")):
        plot.save(tmp_path / f"figure.{form}")
        assert (tmp_path / f"figure.{form}").read_bytes().startswith(start)
    with pytest.raises(PermafrostError, match="no figure is written as '.gif'"):
        plot.save(tmp_path / "figure.gif")
    with pytest.raises(
        PermafrostError, match="no ranking over 'all' with 'lnear', did you mean 'linear'"
    ):
        results.plot_ranked("lnear")
    with pytest.raises(PermafrostError, match="no ranking over 'nowhere'"):
        results.plot_cost(group="nowhere")
    with pytest.raises(PermafrostError, match="no data for the figure 'critical'"):
        results.plot_critical()
    assert not (tmp_path / "figure.gif").exists()


@pytest.mark.slow
def test_over_several_datasets_the_critical_difference_is_drawn(project, tmp_path):
    landcover = project.config["extra_datasets"]["tiny-landcover"]
    more = {"second": {**landcover, "source": {**landcover["source"], "seed": 1}}}
    project.configure(
        datasets=["tiny-landcover", *more],
        extra_datasets={"tiny-landcover": landcover, **more},
        probes={"knn": {"kind": "knn"}},
    )
    project.snakemake()
    results = pf.Results(project.path("results"))
    plot = results.plot_critical()
    rows = [row for name, rows in plot.specification["datasets"].items() for row in rows]
    assert {row["backbone"] for row in rows if "backbone" in row} == set(results.backbones)
    plot.save(tmp_path / "critical.svg")
    drawn = (tmp_path / "critical.svg").read_text()
    assert drawn == project.path("results/report/figures/critical__knn.svg").read_text()
    assert all(name in drawn for name in results.backbones)
