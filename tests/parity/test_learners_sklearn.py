"""Learners against scikit-learn's own objects, and the targets for which scikit-learn has no answer."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from helpers.stages.probe_jobs import options_of
from permafrost.core.errors import PermafrostError
from permafrost.probes.embeddings.features import Features
from permafrost.probes.kinds import KINDS
from permafrost.probes.learners.gradient_boosting import run_gradient_boosting
from permafrost.probes.learners.nearest_centroid import run_nearest_centroid
from permafrost.probes.learners.random_forest import run_random_forest
from permafrost.probes.learners.svm import run_svm
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.metrics import average_precision_score
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

RUN = {
    "random_forest": run_random_forest,
    "gradient_boosting": run_gradient_boosting,
    "svm": run_svm,
    "nearest_centroid": run_nearest_centroid,
}
QUICK = {"random_forest": {"trees": 20}, "gradient_boosting": {"rounds": 12, "leaves": 5}}
SEED = 7


def splits_of(task: str, *, classes: int = 4, seed: int = 0, counts=(160, 60, 50)):
    """Noisy classes or numbers of nine features of different scale."""
    rng = np.random.default_rng(seed)
    centres = 1.2 * rng.normal(size=(classes, 9))
    splits = {}
    for name, count in zip(("train", "val", "test"), counts, strict=True):
        own = np.arange(count) % classes
        x = (centres[own] + rng.normal(size=(count, 9))).astype(np.float32)
        x[:, 3] *= 50
        labels = {
            "classification": own,
            "multilabel": (x[:, :classes] + 0.3 * rng.normal(size=(count, classes)) > 0).astype(
                np.uint8
            ),
            "regression": x[:, 0] * x[:, 1] + x[:, 2].astype(np.float64),
        }[task]
        about = {"task": task, "classes": [f"class {i}" for i in range(classes)]}
        samples = pa.table({"sample_id": [f"{name} {row}" for row in range(count)]})
        splits[name] = Features(x, labels, samples, about)
    return splits


def run(kind: str, splits, seed=SEED, **options):
    chosen = options_of(kind, {"kind": kind, **QUICK.get(kind, {})}, **options)
    result = RUN[kind](splits, chosen, device="cpu", seed=seed)
    json.dumps(result.settings, allow_nan=False)
    return result


def arrays(splits):
    return [array for split in splits.values() for array in (split.embeddings, split.labels)]


def test_a_forest_is_that_of_scikit_learn():
    train_x, train_y, _, _, test_x, _ = arrays(splits_of("classification"))
    result = run("random_forest", splits_of("classification"))
    model = RandomForestClassifier(20, random_state=SEED).fit(train_x, train_y)
    np.testing.assert_allclose(result.scores, model.predict_proba(test_x), atol=1e-6)
    np.testing.assert_array_equal(result.prediction, result.scores.argmax(axis=1))
    train_x, train_y, _, _, test_x, _ = arrays(splits_of("multilabel"))
    result = run("random_forest", splits_of("multilabel"))
    model = RandomForestClassifier(20, random_state=SEED).fit(train_x, train_y)
    expected = np.stack([one[:, 1] for one in model.predict_proba(test_x)], axis=1)
    np.testing.assert_allclose(result.scores, expected, atol=1e-6)
    np.testing.assert_array_equal(result.prediction, expected > 0.5)
    train_x, train_y, _, _, test_x, _ = arrays(splits_of("regression"))
    model = RandomForestRegressor(20, max_features=1 / 3, random_state=SEED).fit(train_x, train_y)
    result = run("random_forest", splits_of("regression"))
    np.testing.assert_allclose(result.prediction, model.predict(test_x), rtol=1e-12)
    assert result.scores is None


def test_the_number_of_rounds_is_the_best_on_validation():
    shared = {"max_leaf_nodes": 5, "early_stopping": False}
    splits = splits_of("classification")
    train_x, train_y, val_x, val_y, test_x, _ = arrays(splits)
    fits = [
        HistGradientBoostingClassifier(max_iter=rounds, **shared).fit(train_x, train_y)
        for rounds in range(1, 13)
    ]
    best = int(np.argmax([(fit.predict(val_x) == val_y).mean() for fit in fits]))
    result = run("gradient_boosting", splits)
    assert result.settings["rounds"] == best + 1 and 0 < best < 11
    np.testing.assert_allclose(result.scores, fits[best].predict_proba(test_x), atol=1e-6)

    splits = splits_of("regression")
    train_x, train_y, val_x, val_y, test_x, _ = arrays(splits)
    fits = [
        HistGradientBoostingRegressor(max_iter=rounds, **shared).fit(train_x, train_y)
        for rounds in range(1, 13)
    ]
    best = int(np.argmin([((fit.predict(val_x) - val_y) ** 2).mean() for fit in fits]))
    result = run("gradient_boosting", splits)
    assert result.settings["rounds"] == best + 1
    np.testing.assert_allclose(result.prediction, fits[best].predict(test_x), rtol=1e-9)

    splits = splits_of("multilabel")
    train_x, train_y, val_x, val_y, test_x, _ = arrays(splits)
    staged = []
    for rounds in range(1, 13):
        fits = [
            HistGradientBoostingClassifier(max_iter=rounds, **shared).fit(train_x, column)
            for column in train_y.T
        ]
        staged.append(
            [
                np.stack([fit.predict_proba(x)[:, 1] for fit in fits], axis=1)
                for x in (val_x, test_x)
            ]
        )
    values = [average_precision_score(val_y, one, average="micro") for one, _ in staged]
    result = run("gradient_boosting", splits)
    assert result.settings["rounds"] == int(np.argmax(values)) + 1
    assert result.settings["val_score"] == pytest.approx(max(values))
    np.testing.assert_allclose(result.scores, staged[int(np.argmax(values))][1], atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_support_vectors_are_those_of_scikit_learn(kernel):
    for task, classes in (("classification", 4), ("classification", 2), ("regression", 4)):
        splits = splits_of(task, classes=classes)
        scaler = StandardScaler().fit(splits["train"].embeddings.astype(np.float64))
        train, val, test = (
            scaler.transform(split.embeddings).astype(np.float32) for split in splits.values()
        )
        train_y, val_y = splits["train"].labels, splits["val"].labels
        make = SVR if task == "regression" else SVC
        more = {} if task == "regression" else {"break_ties": True}
        fits = [
            make(kernel=kernel, C=c, gamma=1 / 9, **more).fit(train, train_y) for c in (0.1, 1, 10)
        ]
        if task == "regression":
            values = [-((fit.predict(val) - val_y) ** 2).mean() for fit in fits]
        else:
            values = [(fit.predict(val) == val_y).mean() for fit in fits]
        best = int(np.argmax(values))
        result = run("svm", splits, kernel=kernel, c=[0.1, 1, 10])
        assert result.settings["c"] == (0.1, 1, 10)[best]
        assert ("best_c_on_edge" in result.gates) == (best != 1)
        np.testing.assert_allclose(result.prediction, fits[best].predict(test), atol=5e-3)
        if task == "classification" and classes == 4:
            np.testing.assert_allclose(result.scores, fits[best].decision_function(test), atol=1e-3)


def test_labels_of_support_vectors_are_on_the_side_of_the_plane():
    splits = splits_of("multilabel")
    scaler = StandardScaler().fit(splits["train"].embeddings.astype(np.float64))
    train, test = (
        scaler.transform(splits[name].embeddings).astype(np.float32) for name in ("train", "test")
    )
    result = run("svm", splits, c=[1.0])
    for label, column in enumerate(splits["train"].labels.T):
        model = SVC(C=1.0, gamma=1 / 9).fit(train, column)
        np.testing.assert_array_equal(result.prediction[:, label], model.predict(test))
        order = np.argsort(model.decision_function(test))
        assert (np.diff(result.scores[order, label]) >= 0).all()


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_nearest_centroids_are_those_of_scikit_learn(metric):
    splits = splits_of("classification")
    train_x, train_y, _, _, test_x, _ = arrays(splits)
    result = run("nearest_centroid", splits, metric=metric)
    if metric == "cosine":
        train_x, test_x = (
            x / np.linalg.norm(x.astype(float), axis=1, keepdims=True) for x in (train_x, test_x)
        )
        means = np.stack([train_x[train_y == one].mean(axis=0) for one in range(4)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        np.testing.assert_allclose(result.scores, test_x @ means.T, atol=1e-6)
        return
    model = NearestCentroid().fit(train_x.astype(float), train_y)
    np.testing.assert_array_equal(result.prediction, model.predict(test_x.astype(float)))


@pytest.mark.parametrize("kind", RUN)
def test_a_class_that_train_lacks_is_never_predicted(kind):
    splits = splits_of("classification")
    keep = splits["train"].labels != 2
    train = splits["train"]
    splits["train"] = Features(
        train.embeddings[keep], train.labels[keep], train.samples.filter(keep), train.attributes
    )
    result = run(kind, splits)
    assert result.scores.shape == (50, 4) and np.isfinite(result.scores).all()
    assert 2 not in result.prediction and "class_missing_in_train:2" in result.gates
    assert (result.scores[:, 2] <= result.scores.min(axis=1)).all()


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("kind", RUN)
def test_features_that_are_not_finite_are_refused(kind, split):
    splits = splits_of("classification")
    splits[split].embeddings[5, 2] = np.nan
    message = f"{kind}, {split} features: 1 of .* rows hold NaN or infinity, first row 5"
    with pytest.raises(PermafrostError, match=message):
        run(kind, splits)


@pytest.mark.parametrize("kind", RUN)
def test_of_one_class_in_train_every_answer_is_that_class(kind):
    splits = splits_of("classification")
    splits["train"].labels[:] = 3
    result = run(kind, splits)
    assert (result.prediction == 3).all() and np.isfinite(result.scores).all()


@pytest.mark.parametrize("kind", ["random_forest", "gradient_boosting", "svm"])
def test_labels_that_all_or_no_train_images_have_are_certain(kind):
    splits = splits_of("multilabel")
    splits["train"].labels[:, 0], splits["train"].labels[:, 1] = 0, 1
    result = run(kind, splits)
    assert (result.scores[:, 0] == 0).all() and (result.scores[:, 1] == 1).all()
    assert 0 < result.prediction[:, 2].mean() < 1


@pytest.mark.parametrize(
    ("kind", "task"), [(kind, task) for kind in RUN for task in sorted(KINDS[kind].tasks)]
)
def test_without_validation_nothing_is_chosen(kind, task):
    splits = splits_of(task, counts=(80, 0, 20))
    result = run(kind, splits)
    assert result.settings.get("val_score") is None
    assert result.settings.get("rounds", 12) == 12 and result.settings.get("c", 0.1) == 0.1
    assert len(result.prediction) == 20


@pytest.mark.parametrize("kind", RUN)
def test_results_do_not_depend_on_the_number_of_threads(kind, monkeypatch):
    found = []
    for threads in ("1", "2", "2"):
        monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", threads)
        found.append(run(kind, splits_of("classification", counts=(600, 60, 50))).scores)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[1], found[2])


def test_a_large_training_set_of_support_vectors_is_drawn():
    splits = splits_of("classification", counts=(400, 60, 50))
    result = run("svm", splits, max_samples=100)
    assert result.settings["n_fitted"] == 100
    again = run("svm", splits, max_samples=100)
    np.testing.assert_array_equal(result.scores, again.scores)
    other = run("svm", splits, seed=8, max_samples=100)
    assert (result.scores != other.scores).any()
    assert run("svm", splits).settings["n_fitted"] == 400
