"""Our classification metrics equal torchmetrics' where both define them the same way."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.predictions.labels import multi_label, single_label
from permafrost.metrics import classification as ours

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchmetrics.functional.classification")


def test_single_label_metrics():
    target, prediction, scores = single_label(n=300)
    values = ours.evaluate(target, prediction, scores, task="classification", classes=6)
    names = ("accuracy", "macro_recall", "macro_precision", "macro_f1", "top5_accuracy")
    found = [values[name] for name in names]
    prediction, target, scores = map(torch.as_tensor, (prediction, target, scores))
    macro = {"num_classes": 6, "average": "macro"}
    expected = [
        functional.multiclass_accuracy(prediction, target, num_classes=6, average="micro"),
        functional.multiclass_recall(prediction, target, **macro),
        functional.multiclass_precision(prediction, target, **macro),
        functional.multiclass_f1_score(prediction, target, **macro),
        functional.multiclass_accuracy(scores, target, num_classes=6, average="micro", top_k=5),
    ]
    # torchmetrics computes in single precision
    assert found == pytest.approx([float(value) for value in expected], abs=1e-6)


def test_average_precision_of_each_label():
    target, _, scores = multi_label(n=300, ties=True)
    expected = functional.multilabel_average_precision(
        torch.as_tensor(scores).clamp(0, 1),
        torch.as_tensor(target).long(),
        num_labels=5,
        average="none",
    )
    found = ours.per_class_average_precision(target, np.clip(scores, 0, 1))
    assert found == pytest.approx(expected.numpy(), abs=1e-6)
