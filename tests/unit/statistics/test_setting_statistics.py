"""Scores of several settings and of several draws: means, intervals, spread, ranks, what stays apart."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from helpers.stages.probe_jobs import options_of
from helpers.stages.probing import SCORING, make_splits, write_and_score
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.metrics import classification as evaluation
from permafrost.metrics.tasks import METRICS
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.probes.knn.sweep import run_knn_sweep
from permafrost.statistics.leaderboard.leaderboard import build_leaderboard
from permafrost.statistics.leaderboard.rows import overall
from permafrost.statistics.predictions.reading import predictions_from_table
from permafrost.statistics.predictions.settings import headline_of, settings_from_table
from permafrost.statistics.resampling.resamples import draw_resamples
from permafrost.statistics.resampling.units import find_units
from permafrost.statistics.scores.compare import compare

GROUPS = [f"g{i // 4}" for i in range(40)]


def drawn(task="classification", draws=3, groups=GROUPS):
    """Splits, and a result with one setting drawn several times and one that was drawn once."""
    splits = make_splits(task=task, groups=groups)
    rng = np.random.default_rng(5)
    truth = splits["test"].labels
    answers = []
    for _ in range(draws + 1):
        if task == "multilabel":
            answers.append((rng.random(truth.shape) + 0.5 * truth).astype(np.float32))
        else:
            answers.append(np.where(rng.random(40) < 0.6, truth, rng.integers(0, 4, 40)))
    settings = [
        Setting(
            "small",
            answer,
            {"share": 0.1, "best_c": number},
            n_train=6 + number,
            n_val=3,
            gates=[f"class_missing_in_train:{number}"],
            draw=number,
        )
        for number, answer in enumerate(answers[:-1])
    ]
    settings.append(Setting("whole", answers[-1], {"share": 1.0}, n_train=60, n_val=30, draw=0))
    scores = answers[0] if task == "multilabel" else np.eye(4, dtype=np.float32)[answers[0]]
    prediction = (scores > 0.5).astype(np.uint8) if task == "multilabel" else answers[0]
    ranked = Prediction(prediction, scores, {"share": 0.1}, [])
    return splits, PredictionsBySetting(ranked, settings, headline="small")


def by_hand(truth, answers, task):
    """Overall metrics of each draw from `metrics.classification` on given rows."""
    found = []
    for answer in answers:
        multilabel = task == "multilabel"
        scores = answer if multilabel else np.eye(4)[answer]
        labels = answer > 0.5 if multilabel else answer
        found.append(evaluation.evaluate(truth, labels, scores, task=task, classes=4))
    return found


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_the_value_is_the_mean_over_draws_and_the_interval_that_of_the_mean(tmp_path, task):
    splits, result = drawn(task)
    _, scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    truth = splits["test"].labels
    answers = [one.answer for one in result.settings if one.name == "small"]
    # the resamples of the groups, written out
    counts = draw_resamples(10, SCORING["resamples"], derive_seed("bootstrap", "made", 0)).counts
    rows = scores.to_pylist()
    small = {row["metric"]: row for row in rows if row["setting"] == "small"}
    # all but those of each class, and those that need scores
    known = {one.name for one in METRICS[task] if not one.per_class}
    assert small.keys() == known - {"top5_accuracy"}
    whole = by_hand(truth, answers, task)
    for metric, row in small.items():
        values = [one[metric] for one in whole]
        assert row["value"] == pytest.approx(np.mean(values), abs=1e-12)
        assert row["draw_std"] == pytest.approx(np.std(values, ddof=1), abs=1e-12)
        assert row["n_draws"] == 3 and row["n_train"] == 7 and row["n_val"] == 3
    metric = "micro_ap" if task == "multilabel" else "accuracy"
    means = []
    units = find_units(40, groups=GROUPS).index
    for resample in counts.T.astype(int):
        chosen = np.repeat(np.arange(40), resample[units])
        found = by_hand(truth[chosen], [answer[chosen] for answer in answers], task)
        means.append(np.mean([one[metric] for one in found]))
    expected = np.quantile(means, [0.025, 0.975])
    assert [small[metric]["lower"], small[metric]["upper"]] == pytest.approx(expected, abs=1e-9)


def test_what_is_ranked_has_the_draws_of_its_setting(tmp_path):
    splits, result = drawn()
    (table, metadata), scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    rows = scores.to_pylist()
    ranked = {row["metric"]: row for row in rows if row["setting"] is None}
    small = {row["metric"]: row for row in rows if row["setting"] == "small"}
    for metric, row in ranked.items():
        for key in ("value", "lower", "upper", "n_draws", "draw_std", "n_train", "n_val"):
            assert row[key] == small[metric][key]
    assert [row["metric"] for row in rows if row["primary"]] == ["accuracy"]
    assert headline_of(table, metadata).about.name == "small"


def test_gates_are_those_of_any_draw_and_of_no_other_setting(tmp_path):
    splits, result = drawn()
    _, scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    met = {row["setting"]: set(filter(None, row["gates"].split(";"))) for row in scores.to_pylist()}
    gates = {f"class_missing_in_train:{number}" for number in range(3)}
    assert met["small"] == met[None] == gates and met["whole"] == set()


def test_settings_that_differ_between_draws_are_not_those_of_the_setting(tmp_path):
    splits, result = drawn()
    _, scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    said = {row["setting"]: json.loads(row["settings"]) for row in scores.to_pylist()}
    assert said["small"] == {"share": 0.1} and said["whole"] == {"share": 1.0}


def test_one_draw_has_no_spread(tmp_path):
    splits, result = drawn()
    _, scores = write_and_score(tmp_path, result, splits, kind="few_shot")
    whole = [row for row in scores.to_pylist() if row["setting"] == "whole"]
    assert {(row["n_draws"], row["draw_std"]) for row in whole} == {(1, None)}


def test_settings_are_ranked_among_their_like_and_leave_mean_ranks_alone(tmp_path):
    tables = []
    for backbone, seed in (("a", 0), ("b", 1)):
        splits, result = drawn()
        if seed:  # better in one setting, worse in the other
            truth = splits["test"].labels
            answers = [truth, truth, truth, (truth + 1) % 4]
            settings = [
                dataclasses.replace(one, answer=answer)
                for one, answer in zip(result.settings, answers, strict=True)
            ]
            result = dataclasses.replace(result, settings=settings)
        tables.append(
            write_and_score(tmp_path, result, splits, kind="few_shot", backbone=backbone)[1]
        )
    board = build_leaderboard(tables)
    rows = [row for row in board.to_pylist() if row["metric"] == "accuracy"]
    ranks = {(row["setting"], row["backbone"]): row["rank"] for row in rows}
    assert ranks == {
        (None, "a"): 2,
        (None, "b"): 1,
        ("small", "a"): 2,
        ("small", "b"): 1,
        ("whole", "a"): 1,
        ("whole", "b"): 2,
    }
    # what is ranked stands first, and only it is shown among the overall rows
    assert board["setting"].to_pylist()[0] is None
    assert {row["setting"] for row in overall(board.to_pylist(), primary=False)} == {None}
    assert {(row["backbone"], row["mean_rank"]) for row in board.to_pylist()} == {
        ("a", 2),
        ("b", 1),
    }


def test_backbones_are_compared_by_their_means_over_draws_and_not_by_mcnemar(tmp_path):
    splits, result = drawn(groups=None)
    (table, metadata), _ = write_and_score(tmp_path, result, splits, kind="few_shot")
    a = predictions_from_table(table, metadata)
    b = dataclasses.replace(a, drawn=np.stack([a.target] * 3))
    (row,) = compare({"a": a, "b": b}, resamples=100, seed=0)
    assert row["difference"] == pytest.approx(a.evaluate()["accuracy"] - 1)
    assert row["upper"] < 0 and row["p_mcnemar"] is None
    (row,) = compare({"a": a, "b": a}, resamples=100, seed=0)
    assert row["lower"] < row["difference"] == 0 < row["upper"]


def test_rows_in_another_order_give_the_same_scores(tmp_path):
    splits, result = drawn()
    (table, metadata), _ = write_and_score(tmp_path, result, splits, kind="few_shot")
    shuffled = table.take(np.random.default_rng(0).permutation(40))
    for one, two in zip(
        settings_from_table(table, metadata), settings_from_table(shuffled, metadata), strict=True
    ):
        np.testing.assert_array_equal(one.drawn, two.drawn)
        np.testing.assert_array_equal(one.target, two.target)


@pytest.mark.parametrize("what", ["column", "width", "headline"])
def test_a_table_that_does_not_fit_its_metadata_is_refused(tmp_path, what):
    splits, result = drawn()
    (table, metadata), _ = write_and_score(tmp_path, result, splits, kind="few_shot")
    if what == "column":
        table, message = table.drop_columns(["setting_predictions"]), "lacks the columns"
    elif what == "width":
        metadata["scored_settings"], message = (
            metadata["scored_settings"][:-1],
            "lists of 4 numbers",
        )
    else:
        metadata["headline"], message = "other", "no setting 'other'"
    with pytest.raises(PermafrostError, match=message):
        predictions_from_table(table, metadata)


def test_probes_with_one_setting_are_read_as_before():
    assert settings_from_table(None, {"task": "classification"}) == []
    assert headline_of(None, {"task": "classification"}) is None


def test_a_sweep_leaves_one_setting_of_each_name():
    splits = make_splits()
    options = {
        "k": [1, 5],
        "metrics": ["l2", "cosine"],
        "weights": ["uniform", "temperature"],
        "temperature": 0.07,
    }
    names = [
        one.name
        for one in run_knn_sweep(
            splits, options_of("knn_sweep", options), device="cpu", seed=0
        ).settings
    ]
    assert len(set(names)) == len(names) == 8
