"""Raster metrics against scikit-learn and torchmetrics, where their definitions are the same."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics
import torch
from permafrost.evaluators.raster import evaluate_blocks
from permafrost.evaluators.raster.blocks import Block
from permafrost.evaluators.raster.modules import MeanIoU


def pixels(seed: int, classes: int):
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, classes, (40, 30))
    wrong = rng.integers(0, classes, reference.shape)
    return reference, np.where(rng.random(reference.shape) < 0.6, reference, wrong)


@pytest.mark.parametrize("classes", [2, 3, 9])
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("absent", ["nowhere", "reference", "prediction", "both"])
def test_values_equal_scikit_learns(classes, absent):
    reference, prediction = pixels(classes, classes)
    if absent in ("reference", "both"):
        reference[reference == 1] = 0
    if absent in ("prediction", "both"):
        prediction[prediction == 1] = 0
    valid = np.ones(reference.shape, bool)
    block = Block(reference, prediction, valid, valid)
    found = evaluate_blocks([block], classes=classes).values
    flat = reference.ravel(), prediction.ravel()
    expected = {
        "overall_accuracy": sklearn.metrics.accuracy_score(*flat),
        "kappa": sklearn.metrics.cohen_kappa_score(*flat),
        "mean_iou": sklearn.metrics.jaccard_score(*flat, average="macro"),
        "recall": sklearn.metrics.recall_score(*flat, average="macro", zero_division=0),
        "precision": sklearn.metrics.precision_score(*flat, average="macro", zero_division=0),
        "macro_f1": sklearn.metrics.f1_score(*flat, average="macro"),
    }
    for name, value in expected.items():
        assert found[name, None] == pytest.approx(value, abs=1e-12, nan_ok=True), name
    occurring = np.union1d(*flat).tolist()
    each = sklearn.metrics.f1_score(*flat, average=None)
    assert [found["f1", str(code)] for code in occurring] == pytest.approx(each)


def test_mean_iou_equals_torchmetrics():
    from torchmetrics import JaccardIndex

    generator = torch.Generator().manual_seed(1)
    ours, theirs = (
        MeanIoU(5, ignore_index=255),
        JaccardIndex("multiclass", num_classes=5, ignore_index=255),
    )
    for _ in range(3):
        logits = torch.randn(2, 5, 8, 8, generator=generator)
        target = torch.randint(0, 5, (2, 8, 8), generator=generator)
        target[:, :2] = 255
        ours.update(logits, target)
        theirs.update(logits, target)
    assert ours.compute().item() == pytest.approx(theirs.compute().item(), abs=1e-6)
