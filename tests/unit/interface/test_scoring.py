"""Scores, differences and measures of arrays: the stages' numbers, and what a user gets wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import permafrost as pf
import pytest
from helpers.stages.probing import SCORING, make_splits, write_and_score
from helpers.stages.specifications import specification
from permafrost.core.identity import fingerprint
from permafrost.core.tables import read_table
from permafrost.metrics.representation import MEASURES
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.statistics.scores.comparison_table import compare_predictions
from permafrost.statistics.scores.score_table import bootstrap_seed
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, r2_score


def answered(task: str = "classification", groups=None, seed: int = 1):
    """Splits, and scores of a test set that are right more often than not, with ties."""
    splits = make_splits(task=task, groups=groups)
    labels = splits["test"].labels
    rng = np.random.default_rng(seed)
    truth = labels if task == "multilabel" else np.eye(4)[labels]
    scores = np.round(0.6 * truth + rng.random(truth.shape), 1).astype(np.float32)
    found = (scores > 0.5).astype(np.uint8) if task == "multilabel" else scores.argmax(axis=1)
    return splits, Prediction(found, scores)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
@pytest.mark.parametrize("grouped", [False, True])
def test_scores_are_those_of_the_bootstrap_stage(monkeypatch, tmp_path, task, grouped):
    # units are numbered by the hashes of their names: these are those of `make_splits`
    names = "permafrost.interface.predicted.row_names"
    monkeypatch.setattr(names, lambda count: [f"test {row:03d}" for row in range(count)])
    groups = [f"scene {number % 9}" for number in range(40)] if grouped else None
    splits, prediction = answered(task, groups)
    _, table = write_and_score(tmp_path, prediction, splits, kind="knn")
    options = {name: SCORING[name] for name in ("resamples", "confidence", "method")}
    classes = splits["test"].classes if task == "classification" else None
    labels = splits["test"].labels
    y = labels if task == "multilabel" else np.array(classes)[labels]
    found = pf.evaluate(
        y,
        prediction.scores,
        groups=groups,
        classes=classes,
        seed=bootstrap_seed("made", SCORING["seed"]),
        **options,
    )
    stage = table.to_pandas()
    assert found["metric"].tolist() == stage["metric"].tolist()
    for column in ("value", "lower", "upper", "n_units", "unit", "method"):
        assert found[column].tolist() == pytest.approx(stage[column].tolist(), nan_ok=True, abs=0)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_differences_are_those_of_the_compare_stage(tmp_path, task):
    groups, given = [f"scene {number % 9}" for number in range(40)], {}
    for seed, name in enumerate(("one", "two", "three")):
        splits, prediction = answered(task, groups, seed)
        given[name] = prediction.scores
        folder = tmp_path / "made" / name / "seed0"
        folder.mkdir(parents=True)
        write_and_score(folder, prediction, splits, kind="knn", backbone=name)
        (folder / f"{name}.parquet").rename(folder / "knn.parquet")
    options = {"resamples": 99, "confidence": 0.9, "seed": 3}
    spec = {
        "stage": "compare",
        "dataset": "made",
        "probe": "knn",
        "task": task,
        "options": options,
        "inputs": {
            "predictions": {f"{name}/seed0": fingerprint("predictions", name) for name in given}
        },
    }
    output = tmp_path / "compared.parquet"
    compare_predictions(tmp_path, output, spec=specification(spec), fingerprint="f")
    stage = read_table(output)[0].to_pandas()
    stage = stage.rename(columns={"backbone_a": "a", "backbone_b": "b"})
    y = splits["test"].labels
    drawn = {**options, "seed": bootstrap_seed("made", options["seed"])}
    found = pf.compare(y, given, groups=groups, **drawn)
    assert len(found) == 3
    for column in set(found) - {"better"}:
        assert found[column].tolist() == stage[column].tolist(), column
    # the adjusted p-values of three pairs are of the very same draw
    other = pf.compare(y, given, groups=groups, **{**drawn, "seed": 0})
    assert other["p_adjusted"].tolist() != found["p_adjusted"].tolist()


def test_bare_answers_have_no_metrics_of_an_order_of_scores():
    splits, prediction = answered()
    y = splits["test"].labels
    found = pf.evaluate(y, prediction.prediction).set_index("metric")["value"]
    assert found["accuracy"] == accuracy_score(y, prediction.prediction)
    splits, prediction = answered("multilabel")
    y = splits["test"].labels
    bare = pf.evaluate(y, prediction.prediction)
    assert set(bare["metric"]) == {"micro_f1"}
    assert bare.loc[0, "value"] == pytest.approx(
        f1_score(y, prediction.prediction, average="micro")
    )
    whole = pf.evaluate(y, prediction.scores, ["micro_ap"])
    assert whole.loc[0, "value"] == pytest.approx(
        average_precision_score(y, prediction.scores, average="micro")
    )


def test_metrics_of_an_order_are_those_that_move_with_scores_alone():
    from permafrost.interface.scoring import _OF_SCORES

    rng, moved, all_names = np.random.default_rng(0), set(), set()
    for y in (rng.integers(0, 7, 80), rng.integers(0, 2, (80, 4))):
        kinds = 7 if y.ndim == 1 else 4
        one, other = rng.random((2, 80, kinds))
        if y.ndim == 1:  # the same class is largest in both
            first = np.eye(kinds)[rng.integers(0, kinds, 80)]
            one, other = one + first, other + first
        else:  # the same labels are above one half in both
            one = one / 2 + 0.5 * (other > 0.5)
        found = [
            pf.evaluate(y, p, task="multilabel" if y.ndim == 2 else None) for p in (one, other)
        ]
        values = [
            table.dropna(subset="value").set_index(["metric", "class"])["value"] for table in found
        ]
        all_names |= set(found[0]["metric"])
        moved |= {name for (name, _), apart in (values[0] != values[1]).items() if apart}
    assert moved == set(_OF_SCORES) & all_names and moved == set(_OF_SCORES)


def test_numbers_are_scored_as_numbers():
    y = np.linspace(0.0, 1.0, 30)
    p = y + 0.1 * np.sin(40 * y)
    found = pf.evaluate(y, p, ["r2"], groups=np.repeat(np.arange(10), 3))
    assert found.loc[0, "value"] == pytest.approx(r2_score(y, p))
    assert (found.loc[0, "unit"], found.loc[0, "n_units"]) == ("group", 10)


def test_differences_name_the_better_one_and_turn_with_the_names():
    rng = np.random.default_rng(0)
    y = np.array(["land", "sea"])[rng.integers(0, 2, 300)]
    right = rng.random(300)
    guesses = {
        name: np.where(right < share, y, np.where(y == "sea", "land", "sea"))
        for name, share in (("good", 0.95), ("fair", 0.94), ("poor", 0.6))
    }
    found = pf.compare(y, guesses).set_index(["a", "b"])
    assert found.loc[("good", "poor"), "better"] == "good"
    assert pd.isna(found.loc[("fair", "good"), "better"])
    value = {name: accuracy_score(y, p) for name, p in guesses.items()}
    assert found.loc[("fair", "poor"), "difference"] == pytest.approx(value["fair"] - value["poor"])
    numbers = np.linspace(0, 1, 50)
    errors = pf.compare(numbers, {"near": numbers + 0.01, "far": numbers - 0.3}, "rmse")
    assert errors.loc[0, "better"] == "near"  # less is better


def test_measures_of_features_have_intervals():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 6)), np.repeat(["a", "b"], 40)
    found = pf.measures(x, y).set_index("measure")
    assert list(found.index) == list(MEASURES)
    row = found.loc["rankme"]
    assert row["lower"] < row["value"] < row["upper"] + 1e-9
    assert "alignment" not in set(pf.measures(x)["measure"])
    drawn = pf.measures(x, names=["rankme"], max_rows=50, groups=np.arange(80) // 4)
    assert (drawn.loc[0, "rows"], drawn.loc[0, "unit"]) == (50, "group")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pf.evaluate([0, 1], [0]), "1 predictions for 2 samples"),
        (lambda: pf.evaluate([], []), "y has the shape"),
        (lambda: pf.evaluate([0, 1], [0, 1], ["acuracy"]), "did you mean 'accuracy'"),
        (lambda: pf.evaluate([0, 1], [[0.1, np.nan], [0, 1.0]]), "NaN"),
        (lambda: pf.evaluate([0, 1], [[0.1, 0.2, 0.7], [0, 1, 0.0]]), "3 columns for 2 classes"),
        (lambda: pf.evaluate(["a"], ["b"], classes=["a"]), "'b', which is none of the classes"),
        (lambda: pf.evaluate([0, 1], [0, 1], groups=[1]), "1 groups for 2 samples"),
        (lambda: pf.evaluate([[0, np.nan], [1, 0]], np.eye(2)), "y holds NaN"),
        (lambda: pf.measures(np.eye(4), [0, 1, 0, 1, 1]), "5 targets for 4 samples"),
        (lambda: pf.measures(np.eye(4), groups=[0]), "1 groups for 4 samples"),
        (lambda: pf.LinearSweep().fit(np.eye(4), [0, 1, 0, 1], groups=[0]), "1 groups for 4"),
        (lambda: pf.evaluate([0, 1], [0, 1], task="detection"), "pf.detection"),
        (lambda: pf.evaluate([0.0, np.inf], [0.0, 1.0]), "infinity"),
        (lambda: pf.compare([0, 1], {"a": [0, 1]}), "1 predictions cannot be compared"),
        (lambda: pf.compare(np.eye(4), {"a": np.eye(4, dtype=int), "b": np.eye(4)}, task="multilabel"), "needs prob"),
        (lambda: pf.measures([1.0, 2.0]), "not \\(samples, dimensions\\)"),
        (lambda: pf.measures(np.eye(3), names=["alignment"]), "needs labels"),
    ],
)  # fmt: skip
def test_a_wrong_input_is_said_in_one_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_name_that_is_not_offered_lists_what_is():
    with pytest.raises(AttributeError, match="has no 'knn'; available: KNN, LinearSweep"):
        pf.knn  # noqa: B018
    assert {"KNN", "evaluate", "Results"} <= set(dir(pf))
