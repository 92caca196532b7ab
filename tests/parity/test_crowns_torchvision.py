"""Suppression against torchvision, the IoU of pairs against torchmetrics."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.predictions.crowns import CORNERS, box, random_crowns
from permafrost.evaluators.crowns import evaluate
from permafrost.metrics.objects.overlaps import find_pairs, suppress
from torchvision.ops import box_iou, nms


def boxes(rng, count: int) -> np.ndarray:
    low = rng.integers(0, 200, (count, 2))
    return np.hstack([low, low + rng.integers(1, 60, (count, 2))]).astype(np.float64)


@pytest.mark.parametrize("threshold", [0.05, 0.15, 0.5])
def test_suppression_keeps_what_torchvision_keeps_in_its_order(threshold):
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 40, 300):
        shapes, scores = boxes(rng, count), rng.random(count)
        expected = nms(torch.from_numpy(shapes), torch.from_numpy(scores), threshold)
        np.testing.assert_array_equal(
            suppress("box", shapes, scores, threshold=threshold), expected
        )


@pytest.mark.parametrize("counts", [(1, 1), (20, 40), (30, 70), (900, 500)])
def test_pairs_are_all_that_overlap_with_their_iou(counts, monkeypatch):
    # several blocks of comparisons even for few boxes
    monkeypatch.setattr("permafrost.metrics.objects.overlaps._AT_ONCE", 5000)
    rng = np.random.default_rng(1)
    first, second = (boxes(rng, count) for count in counts)
    expected = box_iou(torch.from_numpy(first), torch.from_numpy(second)).numpy()
    pairs = find_pairs("box", first, second)
    dense = np.zeros(counts)
    dense[pairs.first, pairs.second] = pairs.iou
    np.testing.assert_allclose(dense, expected, rtol=1e-12)
    assert len(pairs.first) == np.count_nonzero(expected)


def test_the_iou_of_pairs_is_that_which_deepforest_logs():
    from torchmetrics.detection import IntersectionOverUnion

    truth, predictions = random_crowns(np.random.default_rng(2), "box", 4)
    truth.append(box("i9", (0, 0, 0, 0)))  # an image without crowns
    predictions.append(box("i9", (1, 1, 5, 5), "a", score=0.5))
    ours = evaluate(truth, predictions, unlisted="empty").values["pair_iou", None]
    metric = IntersectionOverUnion(iou_threshold=0.4)
    # DeepForest leaves out images without truth, which torchmetrics would count as zeros
    for image in sorted({row["image_path"] for row in truth} - {"i9"}):
        metric.update([tensors(predictions, image)], [tensors(truth, image)])
    assert ours == pytest.approx(float(metric.compute()["iou"]), abs=1e-6)


def tensors(rows: list[dict], image: str) -> dict:
    own = [row for row in rows if row["image_path"] == image]
    corners = torch.tensor([[row[name] for name in CORNERS] for row in own]).reshape(-1, 4)
    labels = torch.tensor([ord(row["label"][0]) for row in own])
    return {"boxes": corners, "labels": labels, "scores": torch.ones(len(own))}
