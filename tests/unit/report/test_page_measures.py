"""Measures of features beside the scores: in leaderboard, standings and report, and ranked nowhere."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.charts import column, texts_of
from helpers.results.pages import build_report
from helpers.results.tables import (
    format_leaderboard,
    make_card,
    make_plan,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
    write_card,
)
from helpers.stages.measuring import measure, mixture, pair, write_features
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import read_table
from permafrost.report.explanations.measures import first_of, measured_lines, remarks, sample_words
from permafrost.report.figures.matrices import draw_similarity
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard, write_leaderboard
from permafrost.statistics.leaderboard.rows import distinct

BACKBONES = {"best": 0.8, "middle": 0.7, "collapsed": 0.3}
CARD = make_card("demo", classes=3, bands=3, counts=(90, 20, 30))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Score tables, measure tables and the table of pairs of three backbones."""
    folder = tmp_path_factory.mktemp("measured")
    features, labels = mixture()
    given = {
        "best": features,
        "middle": features + mixture(seed=5)[0],
        "collapsed": features * 0 + 0.7,
    }
    scores, measures, predictions = [], [], {}
    for backbone, value in BACKBONES.items():
        store = write_features(folder / f"demo/{backbone}/train.zarr", given[backbone], labels)
        measure(store, folder / f"{backbone}.parquet", backbone=backbone)
        measures.append(read_table(folder / f"{backbone}.parquet")[0])
        rows = make_score_rows(dataset="demo", backbone=backbone, value=value)
        scores.append(score_table(rows))
        path = make_predictions(folder / f"p/{backbone}.parquet", CARD, backbone=backbone)["path"]
        predictions["demo", backbone, 0, rows[0]["probe"]] = path
    pair(folder, folder / "pairs.parquet", BACKBONES)
    return folder, scores, measures, predictions


def report(made, folder, *, measures=True, pairs=True) -> str:
    source, scores, measured, predictions = made
    tables = scores + (measured if measures else [])
    write_leaderboard(tables, folder / "l.parquet", folder / "l.csv", {"fingerprint": "l"})
    build_report(
        plan=make_plan(["demo"], list(BACKBONES)),
        leaderboard=folder / "l.parquet",
        cards={"demo": write_card(folder / "card.json", CARD)},
        predictions=predictions,
        images={},
        comparisons={},
        similarities={"demo": source / "pairs.parquet"} if pairs else {},
        output_dir=folder / "report",
    )
    return report_text(folder / "report")


# --- leaderboard and standings ------------------------------------------------------------------


def test_measures_stand_in_the_leaderboard_without_a_rank(made):
    _, scores, measures, _ = made
    board = build_leaderboard(scores + measures)
    rows = [row for row in board.to_pylist() if row["kind"] == "measures"]
    assert len(rows) == 36 and {row["backbone"] for row in rows} == set(BACKBONES)
    assert all(row["rank"] is None and row["mean_rank"] is None for row in rows)


def test_measures_change_no_rank_no_standing_and_no_printed_line(made):
    _, scores, measures, _ = made
    without, both = build_leaderboard(scores), build_leaderboard(scores + measures)
    own = pa.Table.from_pylist(
        [row for row in both.to_pylist() if row["kind"] != "measures"], schema=both.schema
    )
    assert own.equals(without)
    ranking = Ranking(groups={"all": distinct(both.to_pylist(), "dataset")}, draws=20)
    standings = build_standings(scores, ranking)
    assert standings.num_rows and standings.equals(build_standings(scores + measures, ranking))
    assert format_leaderboard(both) == format_leaderboard(without)


# --- lines and remarks --------------------------------------------------------------------------


@pytest.fixture
def lines(made):
    return measured_lines(build_leaderboard(made[1] + made[2]).to_pylist())


def test_backbones_are_ordered_by_their_best_score_and_by_no_measure(lines):
    assert [line["backbone"] for line in lines] == ["best", "middle", "collapsed"]
    assert [line["best"]["value"] for line in lines] == [0.8, 0.7, 0.3]


def test_scores_of_another_task_are_not_among_the_best(made):
    rows = build_leaderboard(made[1] + made[2]).to_pylist()
    others = [
        {**row, "task": "retrieval", "probe": "retrieval", "value": 0.99}
        for row in rows
        if row["primary"]
    ]
    assert [line["best"]["value"] for line in measured_lines(rows + others)] == [0.8, 0.7, 0.3]


def test_a_backbone_without_a_score_comes_last_and_is_kept(made):
    rows = build_leaderboard(made[1][1:] + made[2]).to_pylist()
    lines = measured_lines(rows)
    assert [line["backbone"] for line in lines] == ["middle", "collapsed", "best"]
    assert lines[-1]["best"] is None


def test_every_undefined_or_doubtful_value_is_explained_once(lines):
    said = remarks(lines)
    assert len(set(said)) == len(said)
    assert "dimension (TwoNN) of collapsed: undefined, fewer than 10 distinct rows." in said
    assert (
        "α-ReQ of best, middle: undefined, 12 eigenvalues differ from zero, 21 are needed." in said
    )
    assert "all measures of collapsed: 89 of 90 rows equal an earlier one." in said
    assert "uniformity, RankMe, stable rank, alignment of collapsed: all rows are equal." in said
    for row in (row for line in lines for row in line["measures"].values()):
        explained = {"undefined", "flag"} & json.loads(row["settings"]).keys()
        assert explained or np.isfinite(row["value"])


def test_which_samples_were_measured_is_said(lines):
    assert sample_words(first_of(lines, views=False)) == "the 90 samples of train"
    drawn = {"split": "val", "rows": 5, "drawn_from": 9}
    row = {"settings": json.dumps(drawn)}
    assert sample_words(row).startswith("5 of the 9 samples of val, drawn at random")


# --- page and figures ---------------------------------------------------------------------------


def test_the_page_shows_measures_beside_the_score_and_how_alike_backbones_are(made, tmp_path):
    page = report(made, tmp_path)
    names = {path.name for path in (tmp_path / "report/figures").iterdir()}
    assert {"measures__demo.svg", "similarity__demo.svg"} <= names
    for words in (
        "The features themselves",
        "RankMe",
        "reads labels",
        "0.800",
        "do not enter any ranking",
        "undefined, fewer than 10 distinct rows",
        "CKA of 3 pairs of backbones",
        "undefined, all rows of one backbone are equal",
        "Measured on the 90 samples of train (90 % interval over 90 images). RankMe and the dimensions grow",
    ):
        assert words in page, words
    board = page[page.index('id="explorer"') : page.index('id="datasets"')]
    assert "rankme" not in board.lower()


def test_without_measures_the_page_says_nothing_of_them(made, tmp_path):
    page = report(made, tmp_path, measures=False, pairs=False)
    assert "The features themselves" not in page and "Feature metrics</strong>" not in page
    names = {path.name for path in (tmp_path / "report/figures").iterdir()}
    assert not any(name.startswith(("measures__", "similarity__")) for name in names)


@pytest.mark.parametrize("kind", ["measures", "pairs"])
def test_either_can_be_shown_alone(made, tmp_path, kind):
    page = report(made, tmp_path, **{"measures": False, "pairs": False, kind: True})
    assert ("RankMe" in page) == (kind == "measures")
    assert ("CKA of 3 pairs" in page) == (kind == "pairs")


def test_a_table_of_pairs_of_another_plan_is_refused(made, tmp_path):
    source, scores, measured, predictions = made
    write_leaderboard(scores, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"})
    path = source / "pairs.parquet"
    with pytest.raises(PermafrostError, match="another plan"):
        build_report(
            plan=make_plan(["demo"], list(BACKBONES)),
            leaderboard=tmp_path / "l.parquet",
            cards={"demo": write_card(tmp_path / "card.json", CARD)},
            predictions=predictions,
            images={},
            comparisons={},
            similarities={"demo": path},
            expect={str(path): "0" * 32},
            output_dir=tmp_path / "report",
        )
    assert not (tmp_path / "report").exists()


def test_every_cell_of_the_matrix_has_its_value():
    values = np.array([[1, 0.25, -0.004], [0.25, 1, np.nan], [-0.004, np.nan, 1]])
    figure = draw_similarity(values, ["a", "b", "$c$"], title="demo")
    assert column(figure, "text") == ["1", "0.25", "0.00", "0.25", "1", "–", "0.00", "–", "1"]


def test_a_large_matrix_has_no_numbers():
    figure = draw_similarity(np.eye(60), [f"backbone {i}" for i in range(60)], title="demo")
    assert "0.00" not in texts_of(figure)
