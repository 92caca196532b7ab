"""Several seeds as one line: which numbers are shown, in the terminal, the page's lines and the summary."""

from __future__ import annotations

import math

import pytest
from helpers.results.tables import format_leaderboard, make_score_rows, score_table
from permafrost.report.sections import scores
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.rows import overall
from permafrost.statistics.leaderboard.seeds import merge_seeds
from scipy.stats import norm, t


def leaderboard(values: dict, **options):
    """(dataset, backbone, probe) -> values per seed, as a leaderboard."""
    return build_leaderboard(
        [
            score_table(
                make_score_rows(
                    dataset=dataset,
                    backbone=backbone,
                    probe=probe,
                    seed=seed,
                    value=value,
                    **options,
                )
            )
            for (dataset, backbone, probe), seeds in values.items()
            for seed, value in enumerate(seeds)
        ]
    )


def lines(values: dict, **options) -> list[dict]:
    return merge_seeds(overall(leaderboard(values, **options).to_pylist()))


def test_the_line_has_the_mean_the_standard_deviation_and_an_interval_of_items_and_seeds():
    (line,) = lines({("d", "net", "linear"): [0.5, 0.6, 0.7]}, half=0.05)
    assert line["value"] == pytest.approx(0.6)
    assert line["seed_std"] == pytest.approx(0.1)  # n - 1 below the fraction line
    of_items, of_seeds = (0.05 / norm.ppf(0.975)) ** 2, 0.1**2 / 3
    df = (of_items + of_seeds) ** 2 / (of_seeds**2 / 2)
    half = t.ppf(0.975, df) * math.sqrt(of_items + of_seeds)
    assert (line["lower"], line["upper"]) == pytest.approx((0.6 - half, 0.6 + half))
    assert line["seeds"] == [0, 1, 2] and line["seed"] is None


def test_seeds_that_agree_have_the_mean_of_the_limits_and_no_interval_leaves_the_range():
    (line,) = lines({("d", "net", "linear"): [0.6, 0.6]}, half=0.05)
    assert (line["lower"], line["upper"]) == pytest.approx((0.55, 0.65))
    (line,) = lines({("d", "net", "linear"): [0.2, 0.9]}, half=0.05)
    assert (line["lower"], line["upper"]) == (0, 1)


def test_one_seed_is_left_as_it_is():
    table = leaderboard({("d", "net", "linear"): [0.5]})
    (row,) = overall(table.to_pylist())
    (line,) = merge_seeds([row])
    assert line == {**row, "seeds": [0], "seed_std": None}


def test_backbones_are_ranked_by_their_means_over_seeds():
    """Of two that win once each, the one that wins clearly is first, whatever the seeds' ranks say."""
    found = lines(
        {("d", "narrow", "linear"): [0.51, 0.51, 0.2], ("d", "clear", "linear"): [0.5, 0.5, 0.9]}
    )
    assert {line["backbone"]: line["rank"] for line in found} == {"clear": 1.0, "narrow": 2.0}
    table = leaderboard(
        {("d", "narrow", "linear"): [0.51, 0.51, 0.2], ("d", "clear", "linear"): [0.5, 0.5, 0.9]}
    )
    means = {row["backbone"]: row["mean_rank"] for row in overall(table.to_pylist())}
    assert means == {"clear": 1.0, "narrow": 2.0}


def test_a_seed_without_a_value_is_left_out_and_only_the_others_are_named():
    (line,) = lines({("d", "net", "linear"): [0.5, math.nan, 0.7]})
    assert line["value"] == pytest.approx(0.6) and line["seeds"] == [0, 2]
    (line,) = lines({("d", "net", "linear"): [math.nan, math.nan]}, half=math.nan)
    assert math.isnan(line["value"]) and line["rank"] is None and line["seed_std"] is None
    (line,) = lines({("d", "net", "linear"): [math.nan, 0.4]})
    assert (line["value"], line["seeds"], line["seed_std"]) == (0.4, [1], None)


def test_gates_of_any_seed_are_kept_and_told_by_seed():
    tables = [
        score_table(make_score_rows(backbone="net", seed=seed, gates=gates))
        for seed, gates in enumerate(["", "below_chance;not_converged", "below_chance"])
    ]
    rows = build_leaderboard(tables).to_pylist()
    (line,) = merge_seeds(overall(rows))
    assert line["gates"] == "below_chance;not_converged"
    found = {gate["short"]: gate for gate in scores.gates_met(rows)}
    assert found["not above chance"]["count"] == 2
    assert found["not above chance"]["where"] == [
        {"dataset": "eurosat", "each": ["net / linear / seed 1", "net / linear / seed 2"]}
    ]


def test_the_terminal_shows_one_line_per_backbone_with_its_spread():
    text = format_leaderboard(
        leaderboard({("d", "net", "linear"): [0.5, 0.7], ("d", "old", "linear"): [0.4]})
    )
    shown = [line.split() for line in text.splitlines()]
    assert text.startswith(
        "d · linear · accuracy (95 % interval over 10 groups and seeds; mean of up to 2 seeds ± "
    )
    assert shown[1] == ["rank", "backbone", "value", "seeds", "interval"]
    assert shown[2] == ["1", "net", "0.600", "±", "0.141", "[0.000,", "1.000]"]
    assert shown[3] == ["2", "old", "0.400", "[0.380,", "0.420]"]
