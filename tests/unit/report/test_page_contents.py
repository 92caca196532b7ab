"""What pages say of scores: comparisons, ranks, kinds of probes, means over datasets."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from helpers.results.pages import build_report, prepare, small
from helpers.results.tables import (
    format_leaderboard,
    make_score_rows,
    report_text,
    score_table,
)
from permafrost.probes.kinds import KINDS
from permafrost.report.sections.run import compute_words
from permafrost.report.sections.scores import comparison_lines, leaderboard_lines
from permafrost.statistics.leaderboard.leaderboard import write_leaderboard


def test_comparisons_are_turned_so_that_the_best_backbone_is_first():
    row = {
        "probe": "knn",
        "seed": 0,
        "difference": -0.2,
        "lower": -0.3,
        "upper": -0.1,
        "p_adjusted": 0.01,
        "resamples": 2000,
    }
    rows = [
        {**row, "backbone_a": "weak", "backbone_b": "best"},
        {**row, "backbone_a": "weak", "backbone_b": "other"},
    ]
    (line,) = comparison_lines(rows, "best")
    assert (line["other"], line["difference"], line["lower"], line["upper"]) == (
        "weak",
        0.2,
        0.1,
        0.3,
    )


def test_bars_share_one_scale_per_dataset():
    rows = make_score_rows(backbone="a", value=0.4, half=0.1) + make_score_rows(
        backbone="b", value=0.8, half=0.1
    )
    rows = [{**row, "rank": 1.0, "mean_rank": 1.0} for row in rows]
    bars = {line["backbone"]: line["bar"] for line in leaderboard_lines(rows)}
    assert bars["a"] == {"left": 0.0, "width": 33.33, "at": 16.67}
    assert bars["b"] == {"left": 66.67, "width": 33.33, "at": 83.33}


def with_probes(tmp_path: Path, probes: dict[str, str]) -> str:
    """The page of a run with these probes (name -> kind)."""
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a"])
    plan = {**arguments["plan"], "probes": {name: {"kind": kind} for name, kind in probes.items()}}
    build_report(**{**arguments, "plan": plan})
    return html.unescape((tmp_path / "report/index.html").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_probe_is_explained_where_it_ran_and_only_there(tmp_path, kind):
    text = with_probes(tmp_path, {"mine": kind})
    for other, known in KINDS.items():
        sentence = known.summary[0].upper() + known.summary[1:]
        assert (sentence in text) == (other == kind), other
    assert f'<dt>{kind} <span class="names">(mine)</span></dt>' in text


def test_what_is_said_of_frozen_features_is_true_of_the_run(tmp_path):
    frozen = with_probes(tmp_path / "1", {"linear": "linear"})
    assert "No backbone was trained here" in frozen
    both = with_probes(tmp_path / "2", {"linear": "linear", "tune": "fine_tune"})
    assert "No backbone was trained here" not in both and "frozen and trained further" in both
    assert "tune trained every backbone further" in both and "linear use frozen features" in both
    trained = with_probes(tmp_path / "3", {"tune": "fine_tune"})
    assert "No score here uses frozen features" in trained and "frozen and trained" not in trained


def test_tied_backbones_share_a_rank_that_says_so(tmp_path):
    arguments = prepare(tmp_path, datasets={"eurosat": small()}, backbones=["a", "b", "c"])
    values = {"a": 0.5, "b": 0.7, "c": 0.5}
    tables = [
        score_table(make_score_rows(backbone=name, value=value)) for name, value in values.items()
    ]
    board = write_leaderboard(
        tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"}
    )
    lines = leaderboard_lines(board.to_pylist())
    assert [(line["backbone"], line["place"]) for line in lines] == [
        ("b", "1"),
        ("a", "2="),
        ("c", "2="),
    ]
    build_report(**arguments)
    assert (
        report_text(tmp_path / "report").count(">2=</td>") == 4
    )  # on the pages of the dataset and of the two backbones
    shown = [line.split()[:2] for line in format_leaderboard(board).splitlines()[2:]]
    assert shown == [["1", "b"], ["2=", "a"], ["2=", "c"]]


def test_what_jobs_ran_on_is_said_where_it_is_recorded():
    plain = {"settings": {"k": 5}}
    assert compute_words([plain]) == ""
    trained = {"settings": {"precision": "bf16"}, "device": "cuda (a card)"}
    assert compute_words([plain, trained, {**plain, "device": "cpu"}]) == (
        "Features were computed on cpu and cuda (a card). Heads were trained in bf16."
    )


def test_backbones_that_were_fed_all_dates_at_once_are_named():
    one = {"backbone": "gru", "dataset": "crops", "input": {"dates": "all", "most_dates": 6}}
    each = {"backbone": "net", "dataset": "crops", "input": {"size": 32}}
    single = {**one, "dataset": "world", "input": {"dates": "all", "most_dates": 1}}
    assert compute_words([one, each, one, single]) == (
        "gru got all dates of a sample of crops at once (up to 6 dates)."
        " gru got all dates of a sample of world at once (1 date)."
    )


def test_what_backbones_were_told_is_said():
    one = {
        "backbone": "told",
        "dataset": "forests",
        "metadata": {
            "place": "unknown",
            "dates": "fed",
            "ground_distance_m": "withheld",
            "reasons": {"place": "known only for 3 of 20 samples"},
        },
        "input": {"positions": "position embeddings interpolated from 37 x 37 patches to 16 x 16"},
    }
    assert compute_words([one, one]) == (
        "told on forests: place unknown (known only for 3 of 20 samples), dates fed, ground distance withheld."
        " told on forests: position embeddings interpolated from 37 x 37 patches to 16 x 16."
    )
