"""Our classification metrics equal scikit-learn's, within rounding, on awkward test sets."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, single_label
from hypothesis import given, settings
from hypothesis import strategies as st
from permafrost.metrics import classification as ours

sklearn = pytest.importorskip("sklearn.metrics")

CASES = [
    {},
    {"present": 3},
    {"n": 1},
    {"n": 7, "classes": 12},
    {"skill": 0.0},
    {"present": 1, "skill": 5.0},
]


@pytest.mark.parametrize("case", CASES)
def test_single_label_metrics(case):
    target, prediction, _ = single_label(**case)
    classes = case.get("classes", 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": sklearn.accuracy_score(target, prediction),
            "balanced_accuracy": sklearn.balanced_accuracy_score(target, prediction),
            "macro_precision": sklearn.precision_score(
                target, prediction, average="macro", zero_division=0
            ),
            "macro_recall": sklearn.recall_score(
                target, prediction, average="macro", zero_division=0
            ),
            "macro_f1": sklearn.f1_score(target, prediction, average="macro", zero_division=0),
        }
    found = ours.metrics_of_counts(*ours.class_counts(target, prediction, classes))
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert ours.accuracy(target, prediction) == found["accuracy"]


@pytest.mark.parametrize("case", CASES)
def test_metrics_per_class(case):
    target, prediction, _ = single_label(**case)
    classes = case.get("classes", 6)
    labels = np.arange(classes)
    precision, recall, _, _ = sklearn.precision_recall_fscore_support(
        target, prediction, labels=labels, zero_division=np.nan
    )
    found = ours.metrics_of_counts(*ours.class_counts(target, prediction, classes))
    assert found["recall"] == pytest.approx(recall, nan_ok=True)
    assert found["precision"] == pytest.approx(precision, nan_ok=True)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_accuracy_without_ties(k):
    target, _, scores = single_label(skill=0.2)
    expected = sklearn.top_k_accuracy_score(target, scores, k=k, labels=np.arange(6))
    assert ours.top_k_hits(target, scores, k).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_average_precision_micro_and_per_class(ties, kind):
    target, prediction, scores = multi_label(n=500, ties=ties)
    scores = scores.astype(kind)
    found = ours.evaluate(target, prediction, scores, task="multilabel", classes=scores.shape[1])
    assert found["micro_ap"] == pytest.approx(
        sklearn.average_precision_score(target, scores, average="micro"), abs=1e-12
    )
    each = sklearn.average_precision_score(target, scores, average=None)
    assert found["average_precision"] == pytest.approx(each, abs=1e-12)
    assert found["macro_ap"] == pytest.approx(each.mean(), abs=1e-12)


F1_CASES = [{}, {"ties": True}, {"n": 1, "share": 0.9}, {"without_positives": (0, 3)}]


@pytest.mark.parametrize("case", F1_CASES)
def test_micro_f1_of_several_labels(case):
    target, prediction, scores = multi_label(**case)
    found = ours.evaluate(target, prediction, scores, task="multilabel", classes=scores.shape[1])
    expected = sklearn.f1_score(target, prediction, average="micro")
    assert found["micro_f1"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("predicted", [0, 1])
def test_micro_f1_without_a_true_label(predicted):
    target, _, scores = multi_label(without_positives=range(5))
    prediction = np.full_like(target, predicted)
    found = ours.evaluate(target, prediction, scores, task="multilabel", classes=5)["micro_f1"]
    # where nothing is predicted either it is undefined, and scikit-learn's value for that is asked for
    expected = sklearn.f1_score(target, prediction, average="micro", zero_division=np.nan)
    assert found == pytest.approx(expected, nan_ok=True) and (found == 0) == bool(predicted)


def test_micro_f1_of_who_predicts_no_label_is_0():
    target, _, scores = multi_label()
    found = ours.evaluate(target, 0 * target, scores, task="multilabel", classes=5)
    assert found["micro_f1"] == 0 == sklearn.f1_score(target, 0 * target, average="micro")


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([-1.0, -0.0, 0.0, 0.2, 0.5, 1.0])),
        min_size=1,
        max_size=30,
    ).filter(lambda entries: any(positive for positive, _ in entries))
)
def test_average_precision_of_any_ranking_with_ties(entries):
    target, scores = np.array([e[0] for e in entries]), np.array([e[1] for e in entries])
    expected = sklearn.average_precision_score(target, scores)
    assert ours.average_precision(target, scores) == pytest.approx(expected, abs=1e-12)
