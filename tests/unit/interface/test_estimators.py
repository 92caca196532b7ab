"""Probes as scikit-learn estimators: its own checks, and the stages' answers to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import permafrost as pf
import pytest
from helpers.stages.probe_jobs import configured, options_of
from helpers.stages.probing import make_splits
from permafrost.probes.knn.probe import run_knn
from permafrost.probes.linear.probe import run_linear
from permafrost.probes.ridge.probe import run_ridge
from permafrost.probes.sgd.linear_probe import run_sgd_linear
from sklearn.utils.estimator_checks import parametrize_with_checks

# the share of neighbours with a label may be 0 or 1, which the check takes for a decision
_SHARES = "check_classifiers_multilabel_output_format_predict_proba"


def expected_failures(estimator) -> dict[str, str]:
    if isinstance(estimator, pf.KNN):
        return {_SHARES: "shares of neighbours are 0 and 1 too"}
    return {}


@parametrize_with_checks(
    [pf.KNN(), pf.LinearSweep(), pf.SGDLinear(epochs=30), pf.Ridge()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(params=["classification", "multilabel"])
def splits(request):
    return make_splits(task=request.param, skill=0.5)


def same_bytes(estimator, splits, prediction) -> None:
    test = splits["test"].embeddings
    assert estimator.predict_proba(test).tobytes() == prediction.scores.tobytes()
    assert np.array_equal(estimator.predict(test), prediction.prediction)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.predict_proba(test).tobytes() == prediction.scores.tobytes()


def data(splits) -> tuple:
    train, val = splits["train"], splits["val"]
    return (train.embeddings, train.labels), (val.embeddings, val.labels)


def options(kind: str, **values):
    return options_of(kind, configured(kind, **values))


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_knn_answers_as_the_stage(splits, metric):
    known = run_knn(splits, options("knn", k=7, metric=metric), device="cpu", seed=0)
    train, _ = data(splits)
    same_bytes(pf.KNN(7, metric=metric).fit(*train), splits, known)


def test_knn_with_equal_rows_is_the_same_after_pickling():
    x = np.repeat(np.eye(3), 5, axis=0)
    knn = pf.KNN(2, metric="l2").fit(x, np.repeat(["a", "b", "c"], 5))
    again = pickle.loads(pickle.dumps(knn))
    assert np.array_equal(again.kneighbors(np.eye(3)), knn.kneighbors(np.eye(3)))
    assert again.predict(np.eye(3)).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("merge", [True, False])
def test_the_sweep_answers_as_the_stage(splits, merge):
    chosen = options("linear", merge_val=merge, c_count=7)
    known = run_linear(splits, chosen, device="cpu", seed=0)
    grid = np.logspace(np.log10(chosen.c_min), np.log10(chosen.c_max), 7)
    train, val = data(splits)
    sweep = pf.LinearSweep(
        grid, merge_val=merge, standardize=chosen.standardize, ties=chosen.ties
    ).fit(*train, validation=val)
    same_bytes(sweep, splits, known)
    assert known.settings["best_c"] == sweep.C_
    assert sweep.C_path_["val_score"].tolist() == known.settings["val_scores"]
    assert sweep.C_path_["C"].tolist() == known.settings["c_grid"]


def test_descent_answers_as_the_stage(splits):
    chosen = options("sgd_linear", learning_rate=[0.01, 0.1], epochs=5)
    known = run_sgd_linear(splits, chosen, device="cpu", seed=3)
    names = ("momentum", "weight_decay", "epochs", "batch_size", "standardize")
    train, val = data(splits)
    mine = pf.SGDLinear([0.01, 0.1], seed=3, **{name: getattr(chosen, name) for name in names}).fit(
        *train, validation=val
    )
    same_bytes(mine, splits, known)
    assert mine.learning_rate_ == known.settings["learning_rate"]


def test_one_learning_rate_holds_nothing_out(splits):
    (x, y), val = data(splits)
    alone = pf.SGDLinear(0.1, epochs=3).fit(x, y)
    given = pf.SGDLinear(0.1, epochs=3).fit(x, y, validation=val)
    assert alone.predict_proba(x).tobytes() == given.predict_proba(x).tobytes()


@pytest.mark.parametrize("choose", ["validation", "leave_one_out"])
def test_ridge_answers_as_the_stage(choose):
    splits = make_splits()
    rng = np.random.default_rng(0)
    splits = {
        name: type(one)(
            one.embeddings,
            one.embeddings @ np.arange(8.0) + rng.normal(size=len(one.labels)),
            one.samples,
            {**one.attributes, "task": "regression"},
        )
        for name, one in splits.items()
    }
    chosen = options("ridge", choose=choose, merge_val=choose == "validation")
    known = run_ridge(splits, chosen, device="cpu", seed=0)
    names = ("alpha_min", "alpha_max", "alpha_count", "merge_val", "standardize")
    train, val = data(splits)
    ridge = pf.Ridge(**{name: getattr(chosen, name) for name in names})
    ridge.fit(*train, validation=val if choose == "validation" else None)
    assert ridge.predict(splits["test"].embeddings).tobytes() == known.prediction.tobytes()
    assert ridge.alpha_ == known.settings["alpha"]


def test_what_is_held_out_keeps_every_class_in_train_and_groups_whole():
    from permafrost.interface.fitting import held_out

    ids = np.repeat([0, 1, 2], [1, 5, 50])
    out = held_out(ids, fraction=0.2, seed=0)
    assert np.bincount(ids[out], minlength=3).tolist() == [0, 1, 10]
    groups = np.repeat(list("abcde"), [2, 30, 8, 8, 8])
    out = held_out(ids, fraction=0.4, seed=0, groups=groups)
    assert len(set(groups[out])) == 2 and not set(groups[out]) & set(groups[~out])
    with pytest.raises(ValueError, match="give validation="):
        held_out(np.array([0, 1]), fraction=0.2, seed=0)


def test_errors_say_what_to_do_and_are_value_errors():
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(ValueError, match="choose a smaller k"):
        pf.KNN(21).fit(x, y)
    with pytest.raises(ValueError, match="validation has classes that train lacks: \\[2\\]"):
        pf.LinearSweep().fit(x, y, validation=(x, y + 1))
    with pytest.raises(ValueError, match="knn has no metric 'l3'"):
        pf.KNN(metric="l3").fit(x, y)
