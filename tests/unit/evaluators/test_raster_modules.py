"""The raster metrics as torchmetrics classes: batches, merging, devices' dtypes, bad input."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from permafrost.core.errors import PermafrostError
from permafrost.evaluators.raster import assessment, modules
from torchmetrics import MetricCollection

CLASSES = {
    modules.OverallAccuracy: "overall_accuracy",
    modules.Recall: "recall",
    modules.Precision: "precision",
    modules.F1Score: "f1",
    modules.MeanIoU: "mean_iou",
    modules.CohenKappa: "kappa",
}


def batches(classes: int, number: int = 3):
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        logits = torch.randn(2, classes, 9, 7, generator=generator)
        yield logits, torch.randint(0, max(2, classes), (2, 9, 7), generator=generator)


def counted(pairs) -> np.ndarray:
    counts = np.zeros((4, 4), int)
    for logits, target in pairs:
        np.add.at(counts, (target.numpy(), logits.argmax(1).numpy()), 1)
    return counts


@pytest.mark.parametrize(("kind", "name"), CLASSES.items())
def test_batches_are_summed_before_they_are_divided(kind, name):
    options = {"smooth": 1.0, "class_weights": (0, 1, 2, 1)}
    metric = kind(4, **options)
    for logits, target in batches(4):
        metric.update(logits, target)
    takes = options if name in ("recall", "precision", "f1") else {}
    expected = getattr(assessment, name)(counted(batches(4)), **takes)
    assert metric.compute().dtype == torch.float64
    assert metric.compute().item() == pytest.approx(float(expected), abs=1e-15)


@pytest.mark.parametrize("kind", CLASSES)
def test_parts_merge_to_the_whole_and_reset_forgets(kind):
    whole, parts = kind(4), [kind(4), kind(4)]
    for number, (logits, target) in enumerate(batches(4)):
        whole.update(logits, target)
        parts[number % 2].update(logits, target)
    merged = pickle.loads(pickle.dumps(parts[0]))
    merged.merge_state(parts[1])
    assert merged.compute() == whole.compute()
    whole.reset()
    assert whole.counts.sum() == 0


def test_forward_gives_the_value_of_the_batch():
    metric = modules.Recall(4)
    values = [metric(logits, target).item() for logits, target in batches(4)]
    alone = [assessment.recall(counted([pair])).item() for pair in batches(4)]
    assert values == pytest.approx(alone)
    assert metric.compute().item() == pytest.approx(assessment.recall(counted(batches(4))).item())


def test_a_collection_counts_once_for_all():
    collection = MetricCollection([kind(4) for kind in CLASSES])
    for logits, target in batches(4):
        collection.update(logits, target)
    assert len(collection.compute_groups) == 1
    assert len(collection.compute()) == len(CLASSES)


def test_the_binary_mode_is_strictly_above_the_threshold():
    metric = modules.Recall(mode="binary")
    logits = torch.tensor([[[[2.0, 0.0, -1.0, 0.1]]]])
    metric.update(logits, torch.tensor([[[[1, 1, 0, 0]]]]))
    assert metric.counts.tolist() == [[1, 1], [1, 1]]
    higher = modules.Precision(mode="binary", threshold=0.6)
    higher.update(logits, torch.tensor([[[1, 1, 0, 0]]]))
    assert higher.counts.tolist() == [[2, 0], [1, 1]]


def test_targets_may_count_from_one_and_be_ignored():
    logits, target = next(batches(4))
    zero, one = modules.F1Score(4), modules.F1Score(4, zero_based=False, ignore_index=255)
    zero.update(logits, target)
    shifted = torch.cat([target + 1, torch.full_like(target, 255)])
    one.update(torch.cat([logits, logits]), shifted.to(torch.uint8))
    assert one.compute() == zero.compute() and one.counts.sum() == target.numel()


def test_half_precision_logits_and_a_batch_of_one():
    logits, target = next(batches(4))
    metric = modules.OverallAccuracy(4)
    metric.update(logits[:1].half(), target[:1])
    assert metric.counts.sum() == 63


@pytest.mark.parametrize(
    ("logits", "target", "words"),
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4).long(), "do not fit"),
        (torch.zeros(2, 4, 4, 4), torch.zeros(2, 4, 5).long(), "do not fit"),
        (torch.zeros(2, 4, 4, 4), torch.zeros(2, 4, 4), "targets are integers"),
        (torch.zeros(2, 4, 4, 4) + torch.nan, torch.zeros(2, 4, 4).long(), "NaN"),
        (torch.zeros(2, 4, 4, 4), torch.full((2, 4, 4), 255), "outside 0 to 3"),
        (torch.zeros(2, 4, 4, 4), torch.full((2, 4, 4), -1), "outside 0 to 3"),
    ],
)
def test_batches_that_do_not_fit_are_refused_and_not_counted(logits, target, words):
    metric = modules.Recall(4)
    with pytest.raises(PermafrostError, match=words):
        metric.update(logits, target)
    assert metric.counts.sum() == 0


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "multi"},
        {"mode": "binary", "classes": 3},
        {"mode": "binary", "class_weights": (0, 1)},
        {"class_weights": (1,)},
        {"threshold": 0.0},
        {"smooth": -1.0},
    ],
)
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(PermafrostError):
        modules.Recall(**options)


def test_the_package_does_not_load_torch():
    code = "import permafrost.evaluators.raster, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
