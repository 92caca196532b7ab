"""Segmentation metrics from confusion matrices equal torchmetrics' from the masks.

torchmetrics leaves a class that is neither true nor predicted out of macro means, and counts as 0
the precision of one that is never predicted and the recall of one that is never true; so do we. It
differs from us where nothing at all is scored (its precision, recall, F1 and accuracy are 0 there,
ours are undefined), and where the ignored value is the id of a class: then its Jaccard index leaves
that class out, as all our means do, but its other macro means count it when it is predicted.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.masks import IGNORE, masks
from permafrost.metrics import segmentation as ours

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchmetrics.functional.classification")

CASES = {
    "all classes": {},
    "without ignored pixels": {"ignored": 0},
    "predicted but never true": {"present": 3},
    "one true class": {"present": 1},
    "one class, all right": {"present": 1, "skill": 1.0},
    "all wrong": {"skill": 0.0, "classes": 3},
    "some images all ignored": {"all_ignored": (0, 3), "n": 5},
    "two classes, one image": {"classes": 2, "n": 1, "size": 4},
}


def theirs(truth, prediction, classes, ignore=IGNORE):
    guess, target = torch.as_tensor(prediction), torch.as_tensor(truth)
    options = {"num_classes": classes, "ignore_index": ignore}
    macro = {**options, "average": "macro"}
    found = {
        "mean_iou": functional.multiclass_jaccard_index(guess, target, **macro),
        "frequency_weighted_iou": functional.multiclass_jaccard_index(
            guess, target, **options, average="weighted"
        ),
        "pixel_accuracy": functional.multiclass_accuracy(guess, target, **options, average="micro"),
        "macro_precision": functional.multiclass_precision(guess, target, **macro),
        "macro_recall": functional.multiclass_recall(guess, target, **macro),
        "macro_f1": functional.multiclass_f1_score(guess, target, **macro),
    }
    each = functional.multiclass_jaccard_index(
        guess, target, **options, average="none", zero_division=float("nan")
    )
    return {name: float(value) for name, value in found.items()}, each.numpy()


def found_by_us(truth, prediction, classes, ignore=IGNORE, **options):
    values = ours.evaluate(ours.confusion_matrix(truth, prediction, classes, ignore), **options)
    each = values.pop("iou")
    return {name: float(value) for name, value in values.items()}, each


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("never_predicted", [None, 0])
def test_metrics_equal_torchmetrics(case, never_predicted):
    truth, prediction = masks(**case)
    classes = case.get("classes", 5)
    if never_predicted is not None:
        prediction = np.where(prediction == never_predicted, classes - 1, prediction)
    values, each = found_by_us(truth, prediction, classes)
    expected, expected_each = theirs(truth, prediction, classes)
    # torchmetrics computes in single precision
    assert values == pytest.approx(expected, abs=1e-6)
    assert each == pytest.approx(expected_each, abs=1e-6, nan_ok=True)


def test_predictions_from_tied_logits_are_those_of_the_lowest_class():
    truth, _ = masks(classes=4)
    logits = np.random.default_rng(0).integers(0, 2, (len(truth), 4, 16, 16)).astype(np.float32)
    values, _ = found_by_us(truth, logits.argmax(axis=1), 4)
    expected, _ = theirs(truth, logits, 4)
    assert values == pytest.approx(expected, abs=1e-6)


def test_nothing_scored_is_undefined_where_torchmetrics_says_zero():
    truth, prediction = masks(all_ignored=range(12))
    expected, _ = theirs(truth, prediction, 5)
    assert np.isnan(expected["mean_iou"])
    assert expected["pixel_accuracy"] == expected["macro_f1"] == 0
    values, each = found_by_us(truth, prediction, 5)
    assert np.isnan([*values.values(), *each]).all()


def test_an_ignored_class_id_is_in_no_mean():
    truth, prediction = masks(ignored=0)
    expected, _ = theirs(truth, prediction, 5, ignore=2)
    values, each = found_by_us(truth, prediction, 5, ignore=2, dead_classes=[2])
    for name in ("mean_iou", "frequency_weighted_iou", "pixel_accuracy"):
        assert values[name] == pytest.approx(expected[name], abs=1e-6)
    assert np.isnan(each[2])
    for name in ("macro_precision", "macro_recall", "macro_f1"):
        # torchmetrics counts the ignored class, with 0, because pixels are given it
        assert values[name] * 4 / 5 == pytest.approx(expected[name], abs=1e-6)
