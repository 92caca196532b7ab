"""The answer of a study: one probe for each task, counts of paired tests, and the sentence."""

from __future__ import annotations

import itertools

import pytest
from helpers.results.tables import make_comparison_table, make_score_rows, score_table
from permafrost.report.tables.study import study_of
from permafrost.statistics.across_datasets.ranks import mean_tied_ranks


def rows_of(
    values: dict, task: str = "classification", probe: str = "linear", kind: str | None = None
):
    """Rows of the leaderboard: dataset to backbone to value."""
    rows = []
    for dataset, scores in values.items():
        ranks = dict(zip(scores, mean_tied_ranks([*scores.values()]), strict=True))
        for backbone, value in scores.items():
            made = make_score_rows(dataset=dataset, backbone=backbone, probe=probe, value=value)
            table = score_table(made).to_pylist()
            rows += [
                {
                    **row,
                    "task": task,
                    "kind": kind or probe,
                    "rank": ranks[backbone],
                    "seed_mean": None,
                }
                for row in table
            ]
    return rows


def compared(dataset: str, probe: str, scores: dict, apart: float) -> list[dict]:
    """Comparisons in which differences of at least `apart` are significant."""
    (template, *_) = make_comparison_table(dataset, probe, ["a", "b"]).to_pylist()
    return [
        template
        | {
            "backbone_a": one,
            "backbone_b": other,
            "difference": scores[one] - scores[other],
            "p_adjusted": 0.001 if abs(scores[one] - scores[other]) >= apart else 0.5,
        }
        for one, other in itertools.combinations(sorted(scores), 2)
    ]


VALUES = {
    "d1": {"a": 0.9, "b": 0.5, "c": 0.4},  # a alone
    "d2": {"a": 0.9, "b": 0.85, "c": 0.4},  # a or b
    "d3": {"a": 0.4, "b": 0.9, "c": 0.5},  # b alone
    "d4": {"a": 0.9, "b": 0.8},  # c has no score
}


def counts(study) -> dict:
    return {one.backbone: {k: n for k, n in one.counts.items() if n} for one in study.places}


def test_counts_are_those_of_paired_tests_and_the_sentence_says_them():
    pairs = {
        (name, "linear"): compared(name, "linear", VALUES[name], 0.1) for name in ("d1", "d2", "d3")
    }
    study = study_of(rows_of(VALUES), pairs)
    assert counts(study) == {
        "a": {"best": 3, "alone": 1, "unsure": 1, "worse": 1},
        "b": {"best": 1, "alone": 1, "worse": 1, "alike": 1, "untested": 1},
        "c": {"worse": 3, "missing": 1},
    }
    # 1, 1, 3, 1; c is last where it has no score
    assert {one.backbone: one.mean_rank for one in study.places} == {"a": 1.5, "b": 1.75, "c": 2.75}
    assert study.sentence == (
        "Of 3 backbones, a has the best mean rank over 4 datasets: best on 3 (significantly better than all"
        " others on 1, not tested on 1), significantly worse on 1 (d3). Also best: b on 1."
    )
    block = study.block(2)
    assert block.lines[0] == [
        "backbone",
        "mean rank",
        "best",
        "not different",
        "worse",
        "not tested",
        "no score",
    ]
    assert block.lines[1:] == [
        ["a", "1.50", "3", "0", "1", "0", "0"],
        ["b", "1.75", "1", "1", "1", "1", "0"],
    ]
    assert "and 1 more" in block.foot and "no score, its rank is the last." in block.foot


def test_each_task_has_the_probe_with_most_results_and_then_the_usual_one():
    scores = {"a": 0.9, "b": 0.8}
    rows = (
        rows_of({"d1": scores, "d2": scores}, probe="z", kind="linear")
        + rows_of({"d1": scores, "d2": scores}, probe="a", kind="knn")
        + rows_of({"d1": scores}, probe="b", kind="linear")
        + rows_of({"s": scores}, "segmentation", "tuned", "fine_tune")
        + rows_of({"s": scores}, "segmentation", "x", "dense_knn")
    )
    assert study_of(rows, {}).probes == {"d1": "z", "d2": "z", "s": "x"}


@pytest.mark.parametrize(
    "values", [{"d1": {"a": 0.9, "b": 0.8}}, {"d1": {"a": 0.9}, "d2": {"a": 0.8}}, {}]
)
def test_one_backbone_or_one_dataset_is_not_a_study(values):
    assert study_of(rows_of(values), {}) is None


def test_ties_share_ranks_and_the_first_place():
    rows = rows_of({"d1": {"a": 0.9, "b": 0.9}, "d2": {"a": 0.8, "b": 0.8}})
    derived = [{**row, "backbone": "z", "rank": None} for row in rows if row["backbone"] == "a"]
    study = study_of([*rows, *derived], {})
    assert [one.mean_rank for one in study.places] == [1.5, 1.5]
    assert counts(study) == {name: {"best": 2, "unsure": 2} for name in "ab"}
    assert study.sentence == "Of 2 backbones, a and b share the best mean rank over 2 datasets."


def test_what_has_no_number_has_no_place():
    values = {"d1": {"a": 0.9, "b": 0.8, "c": float("nan")}, "d2": {"a": 0.9, "b": 0.8, "c": 0.7}}
    found = counts(study_of(rows_of(values), {}))
    assert found["c"] == {"missing": 1, "untested": 1}


def test_derived_datasets_do_not_count():
    rows = rows_of(VALUES)
    standings = [
        {"group": "all", "datasets": "d1;d3", "left_out": "d4"},
        {"group": "x", "datasets": "d2", "left_out": ""},
    ]
    assert set(study_of(rows, {}, standings).probes) == {"d1", "d3", "d4"}
    assert set(study_of(rows, {}, standings[1:]).probes) == set(VALUES)
