"""Figures of backbones that are trained further: which rows they show, and in what order."""

from __future__ import annotations

import pytest
from helpers.results.charts import column, names_of, texts_of
from helpers.results.tables import card_of, make_card, make_score_rows
from permafrost.report.figures.tuned import draw_tuned
from permafrost.report.material.dataset import Material
from permafrost.report.tasks.probe_figures import FINE_TUNE_SETTINGS, draw_gains


def rows_of(backbone: str, tuned: float, frozen: float, seed: int = 0) -> list[dict]:
    (base,) = [row for row in make_score_rows(backbone=backbone, probe="tune") if row["primary"]]
    values = {"fine-tuned": tuned, "frozen": frozen, "fine-tuned minus frozen": tuned - frozen}
    common = {"kind": "fine_tune", "seed": seed, "n_seeds": 1, "seed_std": None}
    ranked = base | common | {"setting": None, "value": tuned, "seed_mean": tuned}
    return [ranked] + [
        base
        | common
        | {
            "setting": name,
            "primary": False,
            "value": value,
            "seed_mean": value,
            "lower": value - 0.1,
            "upper": value + 0.1,
        }
        for name, value in values.items()
    ]


def material(rows):
    return Material("eurosat", card_of(make_card()), rows, {}, {})


def test_there_is_a_figure_for_each_probe_that_trains_backbones(tmp_path):
    (drawn,) = draw_gains(material(rows_of("a", 0.7, 0.6) + rows_of("b", 0.9, 0.5)), tmp_path)
    assert drawn.path.stem == "tuned__eurosat__tune"
    assert drawn.path.name == "tuned__eurosat__tune.svg" and drawn.path.exists()
    assert draw_gains(material(make_score_rows(backbone="a")), tmp_path) == []


def line(value: float) -> dict:
    return {"value": value, "lower": value - 0.05, "upper": value + 0.05}


def test_dots_lie_at_the_values_and_differences_are_written():
    gain = {"value": -0.02, "lower": -0.04, "upper": 0.01}
    lines = {
        "best": {"frozen": line(0.6), "fine-tuned": line(0.8), "gain": line(0.2)},
        "other": {"frozen": line(0.5), "fine-tuned": line(0.48), "gain": gain},
    }
    figure = draw_tuned(lines, title="t", metric="accuracy")
    assert sorted(column(figure, "value")) == [0.48, 0.5, 0.6, 0.8]
    assert names_of(figure, lines) == ["best", "other"]
    differences = ["+0.200 [+0.150, +0.250]", "−0.020 [−0.040, +0.010]"]
    assert names_of(figure, differences) == differences
    assert set(FINE_TUNE_SETTINGS) == set(lines["best"])


def test_a_score_that_is_undefined_is_said_to_be():
    nothing = {"value": float("nan"), "lower": None, "upper": None}
    lines = {"a": dict.fromkeys(FINE_TUNE_SETTINGS, nothing)}
    assert texts_of(draw_tuned(lines, title="t", metric="r2")).count("no value") == 2
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_tuned({}, title="t", metric="r2")
