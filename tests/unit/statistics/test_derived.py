"""Derived backbones and their parents: families of tests, unranked rows, sizes, and the smallest form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.results.tables import make_score_rows, score_table
from permafrost.operate.failures import Failure
from permafrost.operate.succeeded import _stopping
from permafrost.report.sections.derived import _curves
from permafrost.statistics.leaderboard.derived import derived_lines, set_apart, smallest
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.scores.compare import compare
from permafrost.statistics.scores.comparison_table import families

DERIVED = {"a@x": ["a"], "a@y": ["a"], "b@x": ["b"], "ab": ["a", "b"]}


def test_families_are_the_backbones_and_each_with_all_that_are_derived_from_it():
    assert list(families(["b@x", "ab", "c", "a", "a@y", "b", "a@x"], DERIVED)) == [
        (["a", "b", "c"], None),
        (["a", "a@x", "a@y", "ab"], "a"),
        (["b", "ab", "b@x"], "b"),
    ]
    # one whose parent has no predictions is compared with none
    assert list(families(["a@x", "b"], DERIVED)) == [(["b"], None)]
    assert list(families(["b", "a"], {})) == [(["a", "b"], None)]


def test_a_reference_is_compared_with_each_and_no_others_with_each_other():
    from permafrost.statistics.predictions.labelled import LabelledSamples

    rng = np.random.default_rng(0)
    target = rng.integers(0, 3, 60)
    found = {}
    for name in ("a", "b", "c", "d"):
        scores = rng.random((60, 3)).astype(np.float32)
        arrays = (target, scores.argmax(axis=1), scores)
        ids = np.array([f"{row:02}" for row in range(60)])
        found[name] = LabelledSamples.from_arrays(
            ids, *arrays, task="classification", classes=["x", "y", "z"]
        )
    every = {(row["backbone_a"], row["backbone_b"]): row for row in compare(found, seed=1)}
    rows = compare(found, seed=1, reference="b")
    assert [(row["backbone_a"], row["backbone_b"]) for row in rows] == [
        ("a", "b"),
        ("b", "c"),
        ("b", "d"),
    ]
    for row in rows:
        whole = every[row["backbone_a"], row["backbone_b"]]
        assert [row[key] for key in ("difference", "lower", "upper", "p_value")] == [
            whole[key] for key in ("difference", "lower", "upper", "p_value")
        ]
        # a smaller family
        assert row["p_adjusted"] <= whole["p_adjusted"]


def row(backbone, value, probe="knn", metric="accuracy", higher=True):
    return {
        "dataset": "d", "probe": probe, "setting": None, "backbone": backbone, "seed": 0, "metric": metric,
        "class": None, "primary": True, "value": value, "lower": value - 0.1, "upper": value + 0.1, "rank": None,
        "seed_mean": value, "seed_std": None, "higher_is_better": higher, "confidence": 0.95, "n_seeds": 1,
    }  # fmt: skip


def compared(a, b, difference, p, metric="accuracy", higher=True):
    return {
        "metric": metric, "backbone_a": a, "backbone_b": b, "difference": difference, "lower": difference - 0.1,
        "upper": difference + 0.1, "p_adjusted": p, "confidence": 0.95, "higher_is_better": higher,
    }  # fmt: skip


ROWS = [row("a", 0.8), row("b", 0.6), row("a@x", 0.79), row("a@y", 0.5), row("ab", 0.9)]
COMPARED = {
    ("d", "knn"): [
        compared("a", "b", 0.2, 0.01),
        compared("a", "a@x", 0.01, 0.9),
        compared("a", "a@y", 0.3, 0.001),
        compared("a", "ab", -0.1, 0.04),
        compared("ab", "b", 0.3, math.nan),
    ]
}
SIZES = {"d": {"a": 400, "a@x": 100, "a@y": 10, "ab": 800, "b": 400}}


def test_lines_have_the_difference_to_the_parent_whichever_is_named_first():
    lines = {
        (one.parent, one.row["backbone"]): one
        for one in derived_lines(ROWS, COMPARED, DERIVED, SIZES)
    }
    assert set(lines) == {("a", "a@x"), ("a", "a@y"), ("a", "ab"), ("b", "ab")}
    small = lines["a", "a@x"]
    assert (small.difference, small.lower, small.upper) == pytest.approx((-0.01, -0.11, 0.09))
    assert (small.verdict, small.share, small.full) == ("alike", 0.25, 0.8)
    assert lines["a", "a@y"].verdict == "worse"
    assert lines["a", "ab"].verdict == "better" and lines["a", "ab"].difference == pytest.approx(
        0.1
    )
    assert lines["b", "ab"].verdict == "untested" and math.isnan(lines["b", "ab"].difference)


def test_where_less_is_better_a_lower_value_is_the_better_one():
    rows = [
        row("a", 3.0, metric="rmse", higher=False),
        row("a@x", 2.0, metric="rmse", higher=False),
    ]
    pair = {("d", "knn"): [compared("a", "a@x", 1.0, 0.01, metric="rmse", higher=False)]}
    (line,) = derived_lines(rows, pair, DERIVED, {})
    assert (line.verdict, line.difference, line.share) == ("better", -1.0, None)


def test_the_smallest_form_is_not_significantly_worse_and_smaller_than_its_parent():
    lines = derived_lines(ROWS, COMPARED, DERIVED, SIZES)
    assert [one.row["backbone"] for one in smallest(lines)] == ["a@x"]
    # as large as the parent, or of unknown size: no smaller form
    same = {"d": {**SIZES["d"], "a@x": 400}}
    assert smallest(derived_lines(ROWS, COMPARED, DERIVED, same)) == []
    assert smallest(derived_lines(ROWS, COMPARED, DERIVED, {})) == []
    # of two of one size, the better
    two = [*ROWS, row("a@z", 0.795)]
    pairs = {("d", "knn"): [*COMPARED["d", "knn"], compared("a", "a@z", 0.005, 0.9)]}
    equal = {"d": {**SIZES["d"], "a@z": 100}}
    for order in (two, two[::-1]):
        found = derived_lines(order, pairs, {**DERIVED, "a@z": ["a"]}, equal)
        assert [one.row["backbone"] for one in smallest(found)] == ["a@z"]
    # a join is no form of one of its parts, however small
    joined = {"d": {**SIZES["d"], "ab": 1}}
    assert [
        one.row["backbone"] for one in smallest(derived_lines(ROWS, COMPARED, DERIVED, joined))
    ] == ["a@x"]


def test_derived_backbones_are_set_apart_unless_they_are_ranked():
    rows, pairs, lines = set_apart(ROWS, COMPARED, {"derived": DERIVED, "sizes": SIZES})
    assert rows == ROWS[:2] and pairs == {("d", "knn"): COMPARED["d", "knn"][:1]}
    assert repr(lines) == repr(derived_lines(ROWS, COMPARED, DERIVED, SIZES))
    # of a run that ranks them, the metadata names none
    assert set_apart(ROWS, COMPARED, {}) == (ROWS, COMPARED, [])


def test_a_curve_has_the_best_form_of_each_size_and_none_without_a_score():
    rows = [*ROWS, {**row("a@z", 0.0), "value": None, "lower": None, "upper": None}]
    sizes = {"d": {**SIZES["d"], "a@y": 100, "a@z": 100}}
    lines = derived_lines(rows, COMPARED, {**DERIVED, "a@z": ["a"]}, sizes)
    for order in (lines, lines[::-1]):
        curve = _curves(order, {"a": ROWS[0]})["a"]
        assert [(point.x, point.value) for point in curve] == [(100, 0.79), (400, 0.8)]


def test_unranked_backbones_leave_the_ranks_of_others_as_they_are():
    def table(name, value):
        rows = make_score_rows(dataset="d", backbone=name, probe="knn")
        return score_table([{**one, "value": value} for one in rows])

    roots = [table("a", 0.5), table("b", 0.7)]
    before = build_leaderboard(roots).to_pylist()
    found = build_leaderboard([*roots, table("a@x", 0.9)], unranked=["a@x"]).to_pylist()
    assert [row for row in found if row["backbone"] != "a@x"] == before
    aside = [row for row in found if row["backbone"] == "a@x"]
    assert len(aside) == len(before) / 2
    assert {(row["rank"], row["mean_rank"]) for row in aside} == {(None, None)}
    # if asked for, they are ranked
    every = build_leaderboard([*roots, table("a@x", 0.9)]).to_pylist()
    assert {row["rank"] for row in every if row["backbone"] == "a@x" and row["rank"]} == {1.0}


def test_a_failed_extraction_of_a_parent_is_the_reason_that_a_form_has_no_score():
    plan = {"backbones": {"a": {"kind": "rcf"}, "a@x": {"kind": "derived", "of": "a", "steps": []}}}
    row = {"dataset": "d", "backbone": "a@x", "probe": "knn", "seed": 0}
    failed = Failure(stage="extract", error="no weights", log="", dataset="d", backbone="a")
    other = Failure(
        stage="probe", error="a probe", log="", dataset="d", backbone="a", probe="knn", seed=0
    )
    elsewhere = Failure(stage="extract", error="elsewhere", log="", dataset="e", backbone="a")
    assert list(_stopping(plan, [other, elsewhere, failed], "bootstrap", row)) == ["no weights"]
    own = Failure(stage="derive", error="too few", log="", dataset="d", backbone="a@x")
    assert list(_stopping(plan, [own], "bootstrap", row)) == ["too few"]
    assert list(_stopping(plan, [failed], "bootstrap", {**row, "backbone": "a"})) == ["no weights"]
