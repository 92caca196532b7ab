"""Measures of augmented views on the page: their names, their images, and what must be said of them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.results.charts import names_of, rows_of, views_of
from helpers.results.pages import build_report
from helpers.results.tables import (
    make_card,
    make_plan,
    make_predictions,
    make_score_rows,
    report_text,
    score_table,
    write_card,
)
from helpers.stages.views import OPTIONS, STILL, measure_views, write_both
from permafrost.core.tables import read_table
from permafrost.report.explanations.measures import measured_lines, remarks, view_words
from permafrost.report.figures.measures import draw_measures
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard, write_leaderboard

CARD = make_card("demo", classes=3, bands=3, counts=(90, 20, 30))
BACKBONES = {"moved": 0.8, "still": 0.4}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Score tables, tables of measures and predictions of a backbone that views move, and of one they don't."""
    folder = tmp_path_factory.mktemp("views")
    generator = np.random.default_rng(0)
    views = generator.normal(size=(40, 1, 8)) + 0.3 * generator.normal(size=(40, 3, 8))
    views[4, 1:] = 0.0
    given = {"moved": views, "still": np.repeat(views[:, :1], 3, axis=1)}
    scores, tables, predictions = [], [], {}
    for backbone, value in BACKBONES.items():
        paths = write_both(folder / backbone, given[backbone], drawn_from=90)
        output = folder / f"{backbone}.parquet"
        measure_views(*paths, output, backbone=backbone, dataset="demo")
        tables.append(read_table(output)[0])
        rows = make_score_rows(dataset="demo", backbone=backbone, value=value)
        scores.append(score_table(rows))
        path = make_predictions(folder / f"p/{backbone}.parquet", CARD, backbone=backbone)["path"]
        predictions["demo", backbone, 0, rows[0]["probe"]] = path
    return scores, tables, predictions


@pytest.fixture
def lines(made):
    return measured_lines(build_leaderboard(made[0] + made[1]).to_pylist())


def test_the_page_says_what_they_are_and_on_which_views(made, tmp_path):
    scores, tables, predictions = made
    write_leaderboard(
        scores + tables, tmp_path / "l.parquet", tmp_path / "l.csv", {"fingerprint": "l"}
    )
    build_report(
        plan=make_plan(["demo"], list(BACKBONES)),
        leaderboard=tmp_path / "l.parquet",
        cards={"demo": write_card(tmp_path / "card.json", CARD)},
        predictions=predictions,
        images={},
        comparisons={},
        similarities={},
        output_dir=tmp_path / "report",
    )
    page = report_text(tmp_path / "report")
    for words in (
        "LiDAR",
        "alignment (views)",
        "effective rank of the differences between images",
        "mean squared distance of two augmented views of an image",
        "Measured on the 40 samples of train (90 % interval over 40 images). RankMe",
        "Of augmented views (alignment (views), LiDAR): 3 of each of 40 of the 90 samples of train, "
        "drawn at random, the same for all backbones (90 % interval over 40 images); "
        "windows of 20 to 100 % of the image, flips, quarter turns, gain ±0.2 and offset ±0.2 "
        "standard deviations of a band.",
        "alignment (views), LiDAR of still: the views of every image are equal.",
        "alignment (views) of moved: 2 of 40 × 3 views are zero and have no direction.",
        "images omitted, because fewer than two of their views have a direction: 1.",
    ):
        assert words in page, words
    board = page[page.index('id="explorer"') : page.index('id="datasets"')]
    assert "lidar" not in board.lower()


def test_the_figure_has_a_panel_for_each_in_a_colour_of_their_own(lines):
    names = ["rankme", "uniformity", "alignment_augmentations", "lidar"]
    figure = draw_measures(lines, names, title="demo")
    titles = ["RankMe", "uniformity", "alignment (views)", "LiDAR"]
    assert [view["title"] for view in views_of(figure)][1:] == titles
    kinds = [{row["series"] for row in rows_of(figure, place)} for place in range(5)]
    free, views = {"measures without labels"}, {"of augmented views"}
    assert kinds == [{"best score"}, free, free, views, views]
    legend = ["best score", *free, *views, "measures with labels"]
    assert names_of(figure, legend) == legend[:3]


def test_they_are_ranked_nowhere_and_change_no_other_sentence(made, lines):
    board = build_leaderboard(made[0] + made[1]).to_pylist()
    rows = [row for row in board if row["metric"] in ("lidar", "alignment_augmentations")]
    assert len(rows) == 4 and all(row["rank"] is None and not row["primary"] for row in rows)
    assert [line["backbone"] for line in lines] == ["moved", "still"]
    assert not any("None" in sentence for sentence in remarks(lines))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (STILL, "nothing changed"),
        ({**STILL, "crop_scale": [0.5, 0.5]}, "windows of 50 to 50 % of the image"),
        ({**STILL, "flips": True}, "flips"),
        ({**STILL, "photometric": {"gain": 0.0, "offset": 0.0}}, "nothing changed"),
    ],
)
def test_augmentations_in_words(options, words):
    from permafrost.core.identity import canonical_json

    assert (
        view_words({"settings": canonical_json({"augmentations": {**OPTIONS, **options}})}) == words
    )
