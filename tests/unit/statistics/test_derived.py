"""Derived backbones and their parents: families of tests, unranked rows, sizes, and the smallest form."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest
from helpers.results.charts import rows_of
from helpers.results.tables import make_score_rows, score_table
from permafrost.core.tables import KEY
from permafrost.operate.failures import Failure
from permafrost.operate.succeeded import _stopping
from permafrost.report.figures.depth_curves import draw_depth_curves
from permafrost.report.sections.derived import _curves, _depths, derived_section
from permafrost.report.tables.derived import derived_blocks
from permafrost.statistics.leaderboard.derived import (
    about_derived,
    derived_lines,
    set_apart,
    smallest,
)
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


def table_of(backbone, about) -> pa.Table:
    table = pa.table({"dataset": ["d"], "backbone": [backbone]})
    metadata = {"derived": about} if about else {}
    return table.replace_schema_metadata({KEY: json.dumps(metadata)})


def test_the_block_that_is_read_is_known_of_forms_of_one_backbone():
    block = {"name": "blocks.2", "block": 3, "of": 12}
    sizes = {"bytes_of": {"a": 400}, "bytes_per_sample": 100}
    tables = [
        table_of("a", None),
        table_of("a@x", {**sizes, "steps": [{"depth": 0.25}, {"pca": 8}], "depth": {"a": block}}),
        table_of("a@y", {**sizes, "steps": [{"pca": 8}]}),
        table_of("ab", {**sizes, "steps": [{"depth": 1}], "depth": {"a": block, "b": block}}),
    ]
    found = about_derived(tables)
    assert found["blocks"] == {"d": {"a@x": {**block, "after": [{"pca": 8}]}}}
    assert found["sizes"]["d"]["a@x"] == 100
    # a leaderboard without them has no key for them
    assert about_derived(tables[:1]) == {} and "blocks" not in about_derived(tables[:3:2])
    lines = derived_lines(ROWS, COMPARED, DERIVED, {}, found["blocks"])
    depths = {one.row["backbone"]: one.depth for one in lines}
    assert depths == {"a@x": 0.25, "a@y": None, "ab": None}
    assert [one.block for one in derived_lines(ROWS, COMPARED, DERIVED, {})] == [None] * 4


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


def by_depth(blocks, values, derived):
    """Lines of forms whose parents are in `ROWS`, with the blocks that they read."""
    rows = [*ROWS[:2], *(row(name, value) for name, value in values.items())]
    sizes = {"d": {"a": 400, "b": 400, **dict.fromkeys(values, 100)}}
    return derived_lines(rows, {}, derived, sizes, {"d": blocks})


def test_scores_are_drawn_against_depth_with_a_line_per_parent_and_further_steps(tmp_path):
    blocks = {
        name: {"name": f"layer{number}", "block": number, "of": 4, "after": after}
        for name, number, after in (
            ("a@h", 4, []),
            ("a@g", 2, []),
            ("b@g", 2, []),
            ("a@i", 1, [{"pca": 4}]),
            ("a@j", 3, [{"pca": 4}]),
        )
    }
    values = {"b@g": 0.65, "a@h": 0.7, "a@g": 0.75, "a@i": 0.5, "a@j": math.nan}
    lines = by_depth(blocks, values, {name: [name[0]] for name in blocks})
    curves = _depths(lines, {one["backbone"]: one for one in ROWS[:2]})
    points = {name: [(one.x, one.value) for one in curve.points] for name, curve in curves.items()}
    assert list(points.items()) == [
        ("a, pca 4", [(0.25, 0.5)]),
        ("a", [(0.5, 0.75), (1.0, 0.7)]),
        ("b", [(0.5, 0.65)]),
    ]
    drawn = rows_of(draw_depth_curves(curves, title="d", up="accuracy"))
    outputs = {(one["series"], one["x"]): one["y"] for one in drawn if one.get("dashed")}
    assert outputs == {
        (name, end): 0.6 if name == "b" else 0.8 for name in points for end in (0.0, 1.0)
    }
    for one in drawn:
        if not one.get("dashed"):
            assert one["upper"] - one["lower"] == pytest.approx(0.2)
            assert any(abs(one["x"] - x) < 0.02 and one["y"] == y for x, y in points[one["series"]])
    assert len(drawn) == 3 * 2 + 4
    told, figures = derived_section(lines, ROWS[:2], tmp_path)
    # forms of a depth are not drawn against bytes
    assert [one.path.stem for one in figures] == ["depth__d__knn"] and figures[0].path.exists()
    assert {one["backbone"]: one["block"] for one in told}["a@g"] == "0.5: 2 of 4, layer2"
    # one depth is no curve
    assert derived_section([one for one in lines if one.depth == 0.5], ROWS[:2], tmp_path)[1] == []


def test_tables_name_the_block_where_one_is_read():
    blocks = {"a@g": {"name": "layer2", "block": 1, "of": 3, "after": []}}
    lines = by_depth(blocks, {"a@g": 0.7, "a@x": 0.6}, {"a@g": ["a"], "a@x": ["a"]})
    (block,) = derived_blocks(lines)
    assert block.lines[0][:4] == ["backbone", "derived from", "depth", "bytes"]
    assert {one[0]: one[2] for one in block.lines[1:]} == {
        "a@g": "0.333: 1 of 3, layer2",
        "a@x": "–",
    }
    (plain,) = derived_blocks([one for one in lines if one.block is None])
    assert plain.lines[0][:3] == ["backbone", "derived from", "bytes"]
