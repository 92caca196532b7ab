"""Metrics of change equal scikit-learn's and torchmetrics' on all scored pixels, of the classes that are changes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.masks import IGNORE, masks
from permafrost.metrics.segmentation import confusion_matrix, evaluate
from permafrost.metrics.tasks import class_metrics, overall_metrics

sklearn = pytest.importorskip("sklearn.metrics")

CASES = {
    "one kind": {"classes": 2},
    "several kinds": {"classes": 4},
    "without ignored pixels": {"classes": 3, "ignored": 0},
    "a kind that is predicted and never true": {"classes": 4, "present": 3},
    "nothing changed, change predicted": {"classes": 3, "present": 1},
    "all changes found": {"classes": 3, "skill": 1.0},
    "none right": {"classes": 2, "skill": 0.0},
    "some images all ignored": {"classes": 3, "all_ignored": (0, 3), "n": 5},
}
NAMES = ("change_f1", "change_iou", "change_precision", "change_recall")


def theirs(truth, prediction, classes) -> dict:
    scored = truth != IGNORE
    true, said = truth[scored], prediction[scored]
    # scikit-learn's own choice of labels, without the first class
    kinds = [one for one in range(1, classes) if (true == one).any() or (said == one).any()]
    options = {"labels": kinds, "average": "macro", "zero_division": 0}
    return {
        "change_f1": sklearn.f1_score(true, said, **options),
        "change_iou": sklearn.jaccard_score(true, said, **options),
        "change_precision": sklearn.precision_score(true, said, **options),
        "change_recall": sklearn.recall_score(true, said, **options),
    }


def ours(truth, prediction, classes, **options) -> dict:
    confusion = confusion_matrix(truth, prediction, classes, IGNORE)
    return evaluate(confusion, task="change", **options)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_metrics_of_change_equal_sklearn(case):
    truth, prediction = masks(**case)
    found, expected = (way(truth, prediction, case["classes"]) for way in (ours, theirs))
    for name in NAMES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name
    wanted = {*overall_metrics("change", case["classes"]), *class_metrics("change")}
    assert set(found) == wanted


def test_of_one_kind_the_scores_are_those_of_its_class():
    torch = pytest.importorskip("torch")
    functional = pytest.importorskip("torchmetrics.functional.classification")
    truth, prediction = masks(classes=2)
    found = ours(truth, prediction, 2)
    guess, target = torch.as_tensor(prediction), torch.as_tensor(truth)
    f1 = functional.binary_f1_score(guess, target, ignore_index=IGNORE)
    iou = functional.binary_jaccard_index(guess, target, ignore_index=IGNORE)
    assert found["change_f1"] == found["f1"][1] == pytest.approx(float(f1), abs=1e-6)
    assert found["change_iou"] == found["iou"][1] == pytest.approx(float(iou), abs=1e-6)


def test_classes_of_change_have_the_f1_of_sklearn():
    truth, prediction = masks(classes=4)
    scored = truth != IGNORE
    expected = sklearn.f1_score(truth[scored], prediction[scored], average=None)
    np.testing.assert_allclose(ours(truth, prediction, 4)["f1"], expected)


def test_where_nothing_changed_only_predicted_changes_have_a_score():
    nothing = np.zeros((2, 4, 4), int)
    silent = ours(nothing, nothing, 2)
    assert all(np.isnan(silent[name]) for name in NAMES) and np.isnan(silent["f1"][1])
    alarmed = ours(nothing, np.eye(4, dtype=int)[None].repeat(2, 0), 2)
    assert [alarmed[name] for name in NAMES] == [0, 0, 0, 0]
    missed = ours(np.eye(4, dtype=int)[None].repeat(2, 0), nothing, 2)
    assert [missed[name] for name in NAMES] == [0, 0, 0, 0]


def test_a_dead_kind_is_in_no_mean():
    truth, prediction = masks(classes=3)
    found = ours(truth, prediction, 3, dead_classes=[2])
    assert found["change_f1"] == found["f1"][1] and np.isnan(found["f1"][2])
