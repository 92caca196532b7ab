"""Curves of probes with several settings: what is drawn where, colours, spread over draws."""

from __future__ import annotations

import json

import pytest
from helpers.results.charts import names_of, rows_of, texts_of
from helpers.results.tables import card_of, make_card, make_score_rows
from permafrost.core.identity import canonical_json
from permafrost.report.figures.loss_curves import draw_loss_curves
from permafrost.report.figures.setting_curves import Point, draw_setting_curves
from permafrost.report.material.dataset import Material
from permafrost.report.tasks.probe_figures import draw_settings
from permafrost.statistics.predictions.relative_loss import RELATIVE_LOSS


def scores_of(backbone, probe, kind, settings):
    """Rows of accuracy: one for each of `settings`, (name, settings, value, spread)."""
    (base,) = [row for row in make_score_rows(backbone=backbone, probe=probe) if row["primary"]]
    own = [base | {"kind": kind}]
    for name, about, value, spread in settings:
        own.append(
            base
            | {"kind": kind, "setting": name, "settings": canonical_json(about), "primary": False}
            | {"value": value, "lower": value - 0.1, "upper": value + 0.1, "draw_std": spread}
        )
    return own


def few_shot(backbone, shift=0.0):
    about = {"per_class": None, "share": None}
    return scores_of(
        backbone,
        "few",
        "few_shot",
        [
            (
                f"{name}, {key} {value}",
                {**about, "classifier": name, key: value},
                0.5 + shift,
                spread,
            )
            for name in ("linear", "knn")
            for key, value, spread in (
                ("share", 0.1, 0.02),
                ("share", 1.0, None),
                ("per_class", 5, 0.03),
            )
        ],
    )


def material(rows):
    return Material("eurosat", card_of(make_card()), rows, {}, {})


def test_shares_and_numbers_per_class_are_figures_of_their_own(tmp_path):
    # the loss on harder images is a setting, too, and not one of the probe
    loss = scores_of("a", "few", "few_shot", [(RELATIVE_LOSS, {"of": "eurosat"}, 0.1, None)])[1:]
    drawn = draw_settings(material(few_shot("a") + few_shot("b", 0.1) + loss), tmp_path)
    assert [one.path.stem for one in drawn] == [
        "settings__eurosat__few__per_class",
        "settings__eurosat__few__share",
    ]
    assert all(one.path.exists() for one in drawn)


def test_metrics_and_weightings_are_panels(tmp_path):
    settings = [
        (f"{k} {metric} {heat}", {"k": k, "metric": metric, "temperature": heat}, 0.5, None)
        for k in (1, 5)
        for metric in ("l2", "cosine")
        for heat in (None, 0.07)
    ]
    (drawn,) = draw_settings(material(scores_of("a", "sweep", "knn_sweep", settings)), tmp_path)
    assert drawn.path.stem == "settings__eurosat__sweep__k"


def test_probes_with_one_setting_have_no_such_figure(tmp_path):
    assert draw_settings(material(make_score_rows(backbone="a")), tmp_path) == []


def figure_of(panels, **changes):
    options = {"title": "t", "across": "k", "up": "accuracy", "note": "bars"} | changes
    return draw_setting_curves(panels, **options)


def test_points_stand_at_their_values_with_intervals_and_spread():
    points = [Point(1, 0.5, 0.4, 0.6, 0.05), Point(10, 0.7, 0.6, 0.8)]
    figure = figure_of({"one": {"a": points}})
    first, second = rows_of(figure)
    assert first == {"x": 1, "y": 0.5, "series": "a", "lower": 0.4, "upper": 0.6, "low": 0.45} | {
        "high": pytest.approx(0.55)
    }
    assert second == {"x": 10, "y": 0.7, "series": "a", "lower": 0.6, "upper": 0.8}
    assert names_of(figure, ["1", "10", "one", "k"]) == ["1", "10", "k", "one"]


def test_backbones_stand_side_by_side_and_the_best_are_coloured():
    lines = {f"b{i}": [Point(1, i / 10, 0, 1), Point(2, i / 10, 0, 1)] for i in range(8)}
    figure = figure_of({"one": lines}, scale=100.0)
    best = ["b7", "b6", "b5", "b4", "b3", "b2"]
    assert names_of(figure, lines) == best and names_of(figure, ["100", "200"]) == ["100", "200"]
    pale = [row for row in rows_of(figure) if row.get("pale")]
    assert {row["series"] for row in pale} == {"b1", "b0"} and {row["x"] for row in pale} == {1, 2}
    moved = {row["x"] for row in rows_of(figure) if row["series"] in best}
    assert len(moved) == 12  # six side by side at both places
    assert "bars Grey: 2 other backbones." in texts_of(figure)


def test_one_size_only_and_no_curves():
    assert "5" in texts_of(figure_of({"one": {"a": [Point(5, 0.5, 0.4, 0.6)]}}))
    with pytest.raises(ValueError, match="no curves"):
        figure_of({})


def test_losses_begin_at_0_and_more_backbones_than_colours_are_left_out():
    def points(*losses):
        return [
            {"severity": severity, "loss": loss, "lower": loss - 0.1, "upper": loss + 0.1}
            for severity, loss in losses
        ]

    noise = {f"b{number}": points((5, 0.5), (1, 0.2)) for number in range(8)}
    noise["b0"][0] |= {"lower": float("nan"), "upper": float("nan")}
    drawn = draw_loss_curves({"noise": noise}, title="t", up="u")
    rows = [row for row in rows_of(drawn) if row["series"] == "b1"]
    assert [(round(row["x"]), row["y"]) for row in rows] == [(0, 0), (1, 0.2), (5, 0.5)]
    assert all(row["upper"] - row["lower"] == pytest.approx(0.2) for row in rows if row["x"])
    assert "NaN" not in json.dumps(drawn) and json.dumps(drawn).count('"upper": ') > 4
    shown = {row["series"] for row in rows_of(drawn)}
    assert len(shown) < 8
    assert f"{8 - len(shown)} more backbones are left out" in " ".join(texts_of(drawn))
