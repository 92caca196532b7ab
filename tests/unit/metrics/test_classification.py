"""Classification metrics at their edges: ties, classes that are absent, input that is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, single_label
from permafrost.core.errors import PermafrostError
from permafrost.metrics import classification as metrics
from permafrost.metrics.classification import evaluate
from permafrost.metrics.tasks import overall_metrics

TARGET = np.array([0, 0, 0, 1, 1, 3])
PREDICTION = np.array([0, 0, 1, 1, 2, 2])


FOUND = evaluate(TARGET, PREDICTION, np.eye(5)[PREDICTION], task="classification", classes=5)


def test_balanced_accuracy_leaves_out_classes_without_targets():
    assert FOUND["balanced_accuracy"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_macro_means_count_predicted_classes_without_targets_but_not_absent_ones():
    # classes 0 to 3 take part, class 4 is nowhere
    assert FOUND["macro_recall"] == pytest.approx((2 / 3 + 1 / 2) / 4)
    assert FOUND["macro_precision"] == pytest.approx((1 + 1 / 2) / 4)
    assert FOUND["macro_f1"] == pytest.approx((0.8 + 0.5) / 4)


def test_ratios_per_class_are_nan_without_a_denominator():
    assert np.array_equal(np.isnan(FOUND["recall"]), [False, False, True, False, True])
    assert np.array_equal(np.isnan(FOUND["precision"]), [False, False, False, True, True])


def test_top_k_ties_go_to_the_lowest_class_id():
    scores = np.array([[0.2, 0.5, 0.5, 0.5, 0.1]])
    hits = [metrics.top_k_hits(np.array([c]), scores, 2)[0] for c in range(5)]
    assert hits == [0, 1, 1, 0, 0]


def test_top_1_is_the_accuracy_of_argmax_with_ties():
    target, prediction, scores = single_label(ties=True)
    assert metrics.top_k_hits(target, scores, 1).mean() == metrics.accuracy(target, prediction)


@pytest.mark.parametrize("k", [0, 7])
def test_top_k_beyond_the_number_of_classes_is_refused(k):
    target, _, scores = single_label()
    with pytest.raises(PermafrostError, match=f"top-{k} "):
        metrics.top_k_hits(target, scores, k)


def test_top5_is_left_out_where_it_would_always_be_one():
    assert "top5_accuracy" not in overall_metrics("classification", 5)
    assert "top5_accuracy" in overall_metrics("classification", 6)


def test_average_precision_by_hand_with_a_tie():
    # thresholds 0.9 (1 of 1), 0.5 (2 of 3 retrieved, two tied), 0.1 (3 of 5)
    target = np.array([1, 0, 1, 0, 1])
    scores = np.array([0.9, 0.5, 0.5, 0.4, 0.1])
    assert metrics.average_precision(target, scores) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)


def test_average_precision_does_not_depend_on_the_order_of_tied_samples():
    target, _, scores = multi_label(ties=True)
    order = np.random.default_rng(1).permutation(len(target))
    assert metrics.micro_average_precision(target[order], scores[order]) == (
        metrics.micro_average_precision(target, scores)
    )


def test_equal_scores_have_the_share_of_positives_as_average_precision():
    target = multi_label()[0]
    assert metrics.micro_average_precision(target, np.zeros(target.shape)) == target.mean()


def test_macro_average_precision_skips_classes_without_positives():
    target, prediction, scores = multi_label(without_positives=(1, 4))
    found = evaluate(target, prediction, scores, task="multilabel", classes=5)
    assert np.flatnonzero(np.isnan(found["average_precision"])).tolist() == [1, 4]
    assert found["macro_ap"] == pytest.approx(np.nanmean(found["average_precision"]))


def test_average_precision_is_undefined_without_positives():
    arrays = multi_label(without_positives=range(5))
    found = evaluate(*arrays, task="multilabel", classes=5)
    assert math.isnan(found["micro_ap"]) and math.isnan(found["macro_ap"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.accuracy([0, 1], [0]), "2 samples, prediction 1"),
        (lambda: metrics.accuracy([], []), "must be a 1-d array of integer"),
        (lambda: metrics.accuracy(np.array([], int), np.array([], int)), "no samples"),
        (lambda: metrics.accuracy([0.0, 1.0], [0, 1]), "target must be"),
        (lambda: metrics.class_counts([0, 3], [0, 1], 3), "class ids 0 to 3, but there are 3"),
        (lambda: metrics.class_counts([0, 1], [-1, 1], 3), "prediction holds class ids -1"),
        (lambda: metrics.micro_average_precision([[0, 2]], [[0.1, 0.2]]), "only 0 and 1"),
        (lambda: metrics.micro_average_precision([[0, 1]], [[0.1, np.nan]]), "NaN"),
        (lambda: metrics.micro_average_precision([[0, 1]], [[0.1]]), "shape"),
        (lambda: metrics.top_k_hits([0], [[np.nan, 1.0]], 1), "NaN"),
        (lambda: evaluate([0], [0], [[1.0]], task="classification", classes=2), "2 classes"),
        (
            lambda: evaluate([0], [0], [[1.0]], task="segmentaton", classes=1),
            "no classification metrics for",
        ),
    ],
)
def test_input_that_has_no_score_is_refused(call, message):
    with pytest.raises(PermafrostError, match=message):
        call()
