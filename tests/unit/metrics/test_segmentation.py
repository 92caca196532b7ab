"""Segmentation metrics at their edges: absent and dead classes, ignored pixels, empty images."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from helpers.predictions.masks import IGNORE, boundaries, confusions, masks
from permafrost.core.errors import PermafrostError
from permafrost.metrics import segmentation as metrics
from permafrost.metrics.segmentation.boundary import band_width
from permafrost.metrics.tasks import class_metrics, overall_metrics

# class 2 is predicted but never true, class 3 true but never predicted, class 4 nowhere
CONFUSION = np.array(
    [
        [6, 1, 1, 0, 0],
        [2, 4, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
)


def test_metrics_by_hand():
    found = metrics.evaluate(CONFUSION)
    iou = [6 / 11, 4 / 7, 0, 0, np.nan]
    assert found["iou"] == pytest.approx(iou, nan_ok=True)
    assert found["mean_iou"] == pytest.approx((6 / 11 + 4 / 7) / 4)
    assert found["frequency_weighted_iou"] == pytest.approx((8 * 6 / 11 + 6 * 4 / 7) / 16)
    assert found["pixel_accuracy"] == pytest.approx(10 / 16)
    assert found["macro_precision"] == pytest.approx((6 / 9 + 4 / 5) / 4)
    assert found["macro_recall"] == pytest.approx((6 / 8 + 4 / 6) / 4)
    assert found["macro_f1"] == pytest.approx((12 / 17 + 8 / 11) / 4)


def test_a_dead_class_is_in_no_mean_but_pixels_given_it_stay_errors():
    found = metrics.evaluate(CONFUSION, dead_classes=[2, 4])
    assert np.isnan(found["iou"][2])
    assert found["mean_iou"] == pytest.approx((6 / 11 + 4 / 7 + 0) / 3)
    assert found["macro_precision"] == pytest.approx((6 / 9 + 4 / 5) / 3)
    assert found["pixel_accuracy"] == pytest.approx(10 / 16)
    assert found["frequency_weighted_iou"] == pytest.approx((8 * 6 / 11 + 6 * 4 / 7) / 16)


def test_nothing_scored_is_nan_throughout():
    found = metrics.evaluate(np.zeros((3, 3), int), boundary=np.zeros((2, 3), int))
    assert all(np.isnan(value).all() for value in found.values())


def test_names_are_those_of_the_score_tables_in_their_order():
    names = list(metrics.evaluate(CONFUSION))
    assert names == [*overall_metrics("segmentation", 5), *class_metrics("segmentation")]
    names = list(metrics.evaluate(CONFUSION, boundary=np.ones((2, 5), int)))
    expected = overall_metrics("segmentation", 5, boundary=True)
    assert names == [*expected, *class_metrics("segmentation", boundary=True)]
    assert "mean_boundary_iou" in names


def test_leading_axes_are_images_evaluated_one_by_one():
    truth, prediction = masks(n=6, classes=4, present=3, all_ignored=(2,))
    stack = confusions(truth, prediction, 4)
    boundary = boundaries(truth, prediction, 4)
    found = metrics.evaluate(
        stack.reshape(2, 3, 4, 4),
        dead_classes=[3],
        boundary=[counts.reshape(2, 3, 4) for counts in boundary],
    )
    for image in range(6):
        alone = metrics.evaluate(
            stack[image], dead_classes=[3], boundary=[counts[image] for counts in boundary]
        )
        for name, value in alone.items():
            part = found[name].reshape(6, *np.shape(value))[image]
            np.testing.assert_array_equal(part, value, err_msg=name)


def test_confusion_matrix_has_truth_in_rows_and_no_ignored_pixel():
    truth = np.array([[0, 1, 1], [IGNORE, 2, 0]], np.uint8)
    # what is predicted under an ignored pixel does not matter, not even that it is no class
    prediction = np.array([[0, 2, 1], [77, 2, 2]], np.uint8)
    expected = np.zeros((3, 3), int)
    expected[0, 0] = expected[1, 2] = expected[1, 1] = expected[2, 2] = expected[0, 2] = 1
    found = metrics.confusion_matrix(truth, prediction, 3, IGNORE)
    assert np.array_equal(found, expected)
    assert found.dtype == np.int64


def test_an_ignored_value_may_be_the_id_of_a_class():
    truth, prediction = np.array([[0, 0, 1, 2]]), np.array([[0, 1, 0, 2]])
    found = metrics.confusion_matrix(truth, prediction, 3, 0)
    assert found.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64])
def test_many_classes_do_not_overflow_small_types(kind):
    truth = np.arange(120, dtype=kind).reshape(10, 12)
    assert np.array_equal(metrics.confusion_matrix(truth, truth, 120), np.eye(120))
    intersection, union = metrics.boundary_counts(truth, truth, 120, 0.1, None)
    assert intersection.tolist() == union.tolist() == [1] * 120


@pytest.mark.parametrize(
    ("truth", "prediction", "message"),
    [
        (np.zeros((2, 2), int), np.zeros((2, 3), int), r"shape \(2, 2\), its prediction \(2, 3\)"),
        (np.full((2, 2), 3), np.zeros((2, 2), int), "mask holds values 3 to 3, but there are 3"),
        (np.full((2, 2), -1), np.zeros((2, 2), int), "mask holds values -1"),
        (np.zeros((2, 2), int), np.full((2, 2), 7), "predicted mask holds values 7"),
        (np.zeros((2, 2)), np.zeros((2, 2), int), "integer class ids, not float64"),
    ],
)
def test_masks_that_fit_no_classes_are_refused(truth, prediction, message):
    with pytest.raises(PermafrostError, match=message):
        metrics.confusion_matrix(truth, prediction, 3, IGNORE)
    with pytest.raises(PermafrostError, match=message):
        metrics.boundary_counts(truth, prediction, 3, 0.02, IGNORE)


@pytest.mark.parametrize(
    ("confusion", "options", "message"),
    [
        (np.zeros((3, 4), int), {}, "square"),
        (np.zeros(9, int), {}, "square"),
        (np.eye(3), {}, "counts of pixels"),
        (-np.eye(3, dtype=int), {}, "counts of pixels"),
        (np.eye(3, dtype=int), {"dead_classes": [3]}, "dead classes 3 of a dataset of 3"),
    ],
)
def test_what_is_no_confusion_matrix_is_refused(confusion, options, message):
    with pytest.raises(PermafrostError, match=message):
        metrics.evaluate(confusion, **options)


def test_the_band_is_a_share_of_the_diagonal_and_at_least_a_pixel():
    assert band_width((300, 400), 0.02) == 10
    assert band_width((8, 8), 0.02) == 1
    for shape, ratio in (((8, 8), 0), ((8, 8), 1.5), ((8,), 0.02)):
        with pytest.raises(PermafrostError, match="no boundary"):
            band_width(shape, ratio)


def test_boundary_counts_of_a_square_by_hand():
    truth = np.zeros((10, 10), int)
    truth[2:8, 2:8] = 1
    shifted = np.roll(truth, 1, axis=1)
    intersection, union = metrics.boundary_counts(truth, shifted, 2, 0.05, None)
    # bands of one pixel: rings of 20 pixels, that share 5 + 5 pixels of their upper and lower sides
    assert (intersection[1], union[1]) == (10, 30)
    same = metrics.boundary_counts(truth, truth, 2, 0.05, None)
    # of the outer class, the image's border (36 pixels) and the ring around the square (28)
    assert same[0].tolist() == same[1].tolist() == [64, 20]


def test_a_right_prediction_has_a_boundary_iou_of_one_beside_ignored_pixels():
    truth, _ = masks(n=1, ignored=0.3)
    guess = np.where(truth == IGNORE, 0, truth)[0]
    intersection, union = metrics.boundary_counts(truth[0], guess, 5, 0.05, IGNORE)
    assert np.array_equal(intersection, union)
    assert union.sum() > 0


def test_an_ignored_image_counts_for_nothing():
    truth, prediction = masks(n=1, all_ignored=(0,))
    assert metrics.confusion_matrix(truth[0], prediction[0], 5, IGNORE).sum() == 0
    for counts in metrics.boundary_counts(truth[0], prediction[0], 5, 0.05, IGNORE):
        assert counts.tolist() == [0] * 5


def test_segmentation_metrics_import_nothing_heavy():
    code = (
        "import sys, permafrost.metrics.segmentation;"
        "print([m for m in ('torch', 'scipy', 'pandas', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
