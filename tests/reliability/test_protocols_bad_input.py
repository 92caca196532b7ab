"""Every classification protocol and regression on what datasets and backbones really hand over.

Five kinds: fewer rows than k, a class with one sample, constant or collapsed features, duplicate
rows, NaN. Each ends in an error that names the place, or in a finite value with a gate that says why.
Measures of features have theirs in test_representation_bad_input and test_views_bad_input.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from helpers.stages.probe_jobs import configured, options_of
from helpers.stages.probing import make_splits
from permafrost.core.errors import PermafrostError
from permafrost.probes.embeddings.features import Features
from permafrost.probes.few_shot.probe import run_few_shot
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.knn.sweep import run_knn_sweep
from permafrost.probes.linear.probe import run_linear
from permafrost.probes.retrieval import run_retrieval
from permafrost.probes.ridge.probe import run_ridge
from permafrost.probes.sgd.linear_probe import run_sgd_linear
from permafrost.probes.sgd.mlp_probe import run_mlp

PROBES = {
    "knn": run_knn,
    "knn_sweep": run_knn_sweep,
    "linear": run_linear,
    "sgd_linear": run_sgd_linear,
    "mlp": run_mlp,
    "few_shot": run_few_shot,
    "retrieval": lambda splits, options, **_: run_retrieval(splits, options),
    "ridge": run_ridge,
}
QUICK = {
    "linear": {"c_count": 5},
    "few_shot": {"c_count": 3, "draws": 2},
    "sgd_linear": {"epochs": 8, "learning_rate": [0.1, 0.01]},
    "mlp": {"epochs": 8, "hidden": 8},
}
# (kind, task): knn and ridge also predict numbers
CASES = [
    (kind, task)
    for kind in PROBES
    for task in ("classification", "multilabel", "regression")
    if (task == "regression") == (kind == "ridge") or (kind, task) == ("knn", "regression")
]
CLASSIFYING = [kind for kind in PROBES if kind != "ridge"]
LEARNING = ("linear", "sgd_linear", "mlp", "ridge")


def run(kind: str, splits: dict[str, Features], **changes):
    """The probe with the defaults of the schema and `changes`."""
    options = configured(kind, **{**QUICK.get(kind, {}), **changes})
    return PROBES[kind](splits, options_of(kind, options), device="cpu", seed=0)


def splits_of(task: str, **options) -> dict[str, Features]:
    """Three splits of four classes; the number to predict is one that the features tell."""
    if task != "regression":
        return make_splits(task=task, skill=3.0, **options)
    made = make_splits(skill=3.0, **options)
    about = {"task": "regression", "classes": [], "target": "height"}
    return {
        name: dataclasses.replace(
            split,
            labels=split.embeddings[:, 0] + 2.0 * split.embeddings[:, 1].astype(np.float64),
            attributes={**split.attributes, **about},
        )
        for name, split in made.items()
    }


def changed(splits: dict[str, Features], change, names=("train", "val", "test"), what="embeddings"):
    return {
        name: dataclasses.replace(split, **{what: change(getattr(split, what))})
        if name in names
        else split
        for name, split in splits.items()
    }


def answers_of(result) -> list[np.ndarray]:
    """All numbers that a probe leaves."""
    if hasattr(result, "precision"):
        return [result.precision[result.relevant > 0], result.found]
    if hasattr(result, "settings") and isinstance(result.settings, list):
        ranked = [
            value for value in (result.ranked.prediction, result.ranked.scores) if value is not None
        ]
        return [setting.answer for setting in result.settings] + ranked
    return [value for value in (result.prediction, result.scores) if value is not None]


def gates_of(result) -> set[str]:
    if hasattr(result, "settings") and isinstance(result.settings, list):
        every = {gate for setting in result.settings for gate in setting.gates}
        return every | set(result.ranked.gates)
    return set(result.gates)


def assert_numbers(result) -> None:
    assert answers_of(result)
    for values in answers_of(result):
        assert np.isfinite(np.asarray(values, float)).all()


# --- fewer rows than k ----------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "multilabel", "regression"])
def test_fewer_rows_than_k_is_an_error_of_knn_that_says_what_to_do(task):
    splits = splits_of(task, counts=(3, 4, 5), classes=2)
    with pytest.raises(PermafrostError, match="k = 5 neighbours of 3 train samples") as caught:
        run("knn", splits)
    assert caught.value.remedy == "choose k from 1 to 3"
    assert_numbers(run("knn", splits, k=3))


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_where_several_k_are_asked_for_those_too_large_are_left_out_and_said(task):
    splits = splits_of(task, counts=(7, 4, 5), classes=2)
    swept, found = run("knn_sweep", splits), run("retrieval", splits)
    assert {f"k_above_train:{k}" for k in (10, 20, 50, 100, 200)} <= gates_of(swept)
    assert gates_of(found) >= {"k_above_gallery:10", "k_above_gallery:100"}
    assert found.ks == [1, 5]
    drawn = run("few_shot", splits, classifiers=["knn"], ranked={"classifier": "knn", "share": 1.0})
    for result in (swept, found, drawn):
        assert_numbers(result)
    for kind, k in (
        ("knn_sweep", "neighbours of 7 train samples"),
        ("retrieval", "nearest images of 7"),
    ):
        with pytest.raises(PermafrostError, match=k) as caught:
            run(kind, splits, k=[8, 20])
        assert caught.value.remedy == "add a k from 1 to 7"


@pytest.mark.parametrize("kind", LEARNING)
def test_fewer_rows_than_features_are_enough_to_learn_from(kind):
    task = "regression" if kind == "ridge" else "classification"
    assert_numbers(run(kind, splits_of(task, counts=(3, 2, 5), classes=2)))


@pytest.mark.parametrize(("kind", "task"), CASES)
@pytest.mark.parametrize("split", ["train", "test"])
def test_no_row_at_all_is_an_error(kind, task, split):
    splits = splits_of(task)
    empty = splits[split]
    splits[split] = dataclasses.replace(
        empty,
        embeddings=empty.embeddings[:0],
        labels=empty.labels[:0],
        samples=empty.samples.slice(0, 0),
    )
    if kind == "knn_sweep" and split == "test":
        assert run(kind, splits).ranked.prediction.shape[0] == 0
        return
    with pytest.raises(PermafrostError) as caught:
        run(kind, splits)
    said = f"{caught.value.where} {caught.value.problem}"
    assert split in said or "scored" in said
    assert caught.value.remedy


# --- a class with one sample ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSIFYING)
def test_a_class_with_one_training_sample_keeps_its_id_and_its_place(kind):
    splits = splits_of("classification")
    labels = np.minimum(splits["train"].labels, 2)
    labels[7] = 3
    splits["train"] = dataclasses.replace(splits["train"], labels=labels)
    result = run(kind, splits)
    assert_numbers(result)
    if kind == "retrieval":
        own = splits["test"].labels == 3
        assert (result.relevant[own] == 1).all() and (result.relevant[~own] > 1).all()
        return
    if kind == "few_shot":
        # not in every draw: then it is said
        assert "class_missing_in_train:3" in gates_of(result)
        assert "fewer_samples_than_asked:3" in gates_of(result)
        return
    ranked = getattr(result, "ranked", result)
    assert ranked.scores.shape == (40, 4)
    assert "class_missing_in_train:3" not in gates_of(result)


@pytest.mark.parametrize("kind", CLASSIFYING)
def test_a_label_of_several_with_one_training_sample(kind):
    splits = splits_of("multilabel")
    labels = splits["train"].labels.copy()
    labels[:, 3] = 0
    labels[7, 3] = 1
    splits["train"] = dataclasses.replace(splits["train"], labels=labels)
    result = run(kind, splits)
    assert_numbers(result)
    if kind not in ("retrieval", "few_shot"):
        assert getattr(result, "ranked", result).scores.shape == (40, 4)


@pytest.mark.parametrize("kind", CLASSIFYING)
def test_a_class_without_a_training_sample_is_said(kind):
    splits = changed(
        splits_of("classification"), lambda y: np.minimum(y, 2), ("train", "val"), "labels"
    )
    expected = "class_missing_in_train:3"
    if kind == "retrieval":
        expected = f"queries_without_relevant:{(splits['test'].labels == 3).sum()}"
    assert expected in gates_of(run(kind, splits))


# --- constant or collapsed features ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_constant_columns_change_nothing_but_rounding(kind, task):
    splits = splits_of(task)
    plain = run(kind, splits)
    wider = run(kind, changed(splits, lambda x: np.concatenate([x, np.full_like(x, 3.0)], axis=1)))
    assert_numbers(wider)
    if kind in ("linear", "knn", "knn_sweep", "ridge") and task == "classification":
        ranked, other = (getattr(result, "ranked", result) for result in (plain, wider))
        assert (ranked.prediction == other.prediction).mean() > 0.85
    if kind == "ridge":
        np.testing.assert_allclose(wider.prediction, plain.prediction, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("kind", "task"), CASES)
@pytest.mark.parametrize("constant", [0.0, 0.7, 1e30])
def test_collapsed_features_give_one_answer_for_all(kind, task, constant):
    splits = changed(splits_of(task), lambda x: np.full_like(x, constant))
    result = run(kind, splits)
    assert_numbers(result)
    if kind in LEARNING:
        assert "collapsed_features" in gates_of(result)
    if kind == "retrieval":
        # what chance finds: every image of the gallery is equally far
        share = result.relevant / result.gallery
        np.testing.assert_allclose(result.precision, share, atol=1e-9)
        return
    for values in answers_of(result):
        assert (np.abs(np.asarray(values, float) - np.asarray(values, float)[0]) < 1e-6).all()


# of float32: the smallest have a spread of about 1e-30, the largest are near its end
@pytest.mark.parametrize("power", [-100, -66, -27, 27, 100, 120])
@pytest.mark.parametrize(("kind", "task"), CASES)
def test_features_of_an_extreme_scale_are_answered_as_those_around_one(kind, task, power):
    splits = splits_of(task)
    factor = np.float32(2.0**power)
    raw = kind in ("linear", "sgd_linear", "ridge")
    options = {"standardize": False} if raw else {}
    result = run(kind, changed(splits, lambda x: x * factor), **options)
    gates = gates_of(result)
    assert "collapsed_features" not in gates
    own = 2.0 ** np.round(np.log2(np.sqrt(splits["train"].embeddings.var(axis=0).sum())))
    expected = run(kind, changed(splits, lambda x: x / np.float32(own)), **options)
    for scaled, plain in zip(answers_of(result), answers_of(expected), strict=True):
        np.testing.assert_allclose(scaled, plain, rtol=1e-4, atol=1e-5)
    if raw:
        assert f"rescaled_features:{own * 2.0**power:.1e}" in gates


@pytest.mark.parametrize("kind", ["linear", "ridge", "sgd_linear"])
@pytest.mark.parametrize("factor", [2.0**-10, 1.0, 2.0**10])
def test_features_of_an_ordinary_scale_are_taken_as_they_are(kind, factor):
    task = "regression" if kind == "ridge" else "classification"
    splits = changed(splits_of(task), lambda x: x * np.float32(factor))
    gates = gates_of(run(kind, splits, standardize=False))
    assert not [gate for gate in gates if gate.startswith("rescaled_features")]


def test_rounding_around_a_constant_is_not_made_large():
    noise = np.random.default_rng(0).normal(size=(60, 8)) * 1e-8
    splits = changed(splits_of("classification"), lambda x: 0.7 + noise[: len(x), : x.shape[1]])
    gates = gates_of(run("linear", splits))
    assert "collapsed_features" in gates
    assert not [gate for gate in gates if gate.startswith("rescaled_features")]


# --- duplicate rows -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_duplicate_rows_are_no_reason_to_fail_and_answers_stay_those_of_equal_rows(kind, task):
    splits = splits_of(task)
    rows = np.repeat(np.arange(15), 4)
    splits = changed(splits, lambda x: x[rows], ("train",))
    splits = changed(splits, lambda y: y[rows], ("train",), "labels")
    shown = np.resize(np.arange(15), 40)
    seen = splits["train"]
    splits["test"] = dataclasses.replace(
        splits["test"], embeddings=seen.embeddings[4 * shown], labels=seen.labels[4 * shown]
    )
    result = run(kind, splits)
    assert_numbers(result)
    for values in answers_of(result):
        np.testing.assert_allclose(
            np.asarray(values, float)[15:30], np.asarray(values, float)[:15], atol=1e-5
        )
    if kind == "knn" and task == "classification":
        # four of the five nearest are the row itself
        assert (result.prediction == splits["test"].labels).all()
    if kind == "retrieval" and task == "classification":
        assert (result.found[:, 0] == 1).all()


# --- NaN ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "task"), CASES)
@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_name_the_row(kind, task, split, bad):
    splits = splits_of(task)

    def spoil(features):
        features = features.copy()
        features[4, 2] = bad
        return features

    with pytest.raises(PermafrostError, match="rows hold NaN or infinity, first row") as caught:
        run(kind, changed(splits, spoil, (split,)))
    assert "features" in str(caught.value.where) and "weights" in caught.value.remedy


@pytest.mark.parametrize("kind", [kind for kind in PROBES if kind != "knn"])
def test_and_in_validation(kind):
    task = "regression" if kind == "ridge" else "classification"
    splits = changed(
        splits_of(task), lambda x: np.where(np.arange(len(x))[:, None] == 4, np.nan, x), ("val",)
    )
    with pytest.raises(PermafrostError, match="rows hold NaN or infinity, first row"):
        run(kind, splits)
