"""Losses, suppression and the choice of cells of the detection head, against torchvision."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.map_splits import Layer
from permafrost.probes.detection.detection_trainer import focal_loss
from permafrost.probes.detection.losses import centreness, giou_loss, iou_loss
from permafrost.probes.detection.pyramid import plan_pyramid
from permafrost.probes.detection.shapes import UPRIGHT
from permafrost.probes.detection.stitching import ShownObjects
from permafrost.probes.detection.targets import assign


def sides(count=50, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 4, generator=generator, dtype=torch.float64) * 5 + 0.1


def around(sides):
    """Distances from one point as corners."""
    return sides * torch.tensor([-1, -1, 1, 1])


def test_the_focal_loss_is_that_of_torchvision():
    from torchvision.ops import sigmoid_focal_loss

    logits = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    truth = (torch.arange(120).reshape(40, 3) % 5 == 0).double()
    expected = sigmoid_focal_loss(logits * 4, truth, alpha=0.25, gamma=2)
    torch.testing.assert_close(focal_loss(logits * 4, truth), expected)


def test_the_loss_of_boxes_is_that_of_torchvision():
    from torchvision.ops import box_iou, generalized_box_iou_loss

    found, truth = sides(), sides(seed=1)
    expected = generalized_box_iou_loss(around(found), around(truth))
    torch.testing.assert_close(giou_loss(found, truth), expected, rtol=1e-6, atol=1e-6)
    iou = box_iou(around(found), around(truth)).diagonal()
    torch.testing.assert_close(iou_loss(found, truth), -iou.log())


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.7])
def test_suppression_is_that_of_torchvision_class_by_class(threshold):
    from torchvision.ops import batched_nms

    rng = np.random.default_rng(0)
    low = rng.uniform(-5, 60, (300, 2))
    boxes = np.hstack([low, low + rng.uniform(5, 30, (300, 2))])
    found = Detected(boxes, rng.integers(0, 3, 300), rng.random(300).round(2))
    arguments = (found.boxes, found.scores, found.classes)
    expected = batched_nms(*(torch.from_numpy(each) for each in arguments), threshold).numpy()
    kept = UPRIGHT.suppress(found, threshold)
    np.testing.assert_array_equal(np.sort(kept.scores), np.sort(found.scores[expected]))
    assert {tuple(box) for box in kept.boxes} == {tuple(box) for box in found.boxes[expected]}
    assert (np.diff(kept.scores) <= 0).all()


def test_suppression_needs_neither_torchvision_nor_torchs_compiler_in_either_order():
    code = (
        "import sys, numpy as np;"
        "from permafrost.probes.detection.shapes import UPRIGHT;"
        "from permafrost.metrics.objects.detected import Detected;"
        "found = Detected(np.array([[0, 0, 4, 4], [0, 0, 4, 5.]]), np.zeros(2, int), np.ones(2));"
        "assert len(UPRIGHT.suppress(found, 0.5)) == 1;"
        "print([m for m in ('torchvision', 'torch._dynamo', 'sympy') if m in sys.modules]);"
        "import torchvision.ops, torch;"
        "torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def torchvision_matches(boxes: np.ndarray, levels):
    """(L,) index of the box of each cell, -1 without, by the code of torchvision's FCOS."""
    from torchvision.models.detection.fcos import FCOS

    seen = {}

    def keep(targets, head_outputs, anchors, matched_idxs):
        seen["matched"] = matched_idxs[0]

    half = levels.strides / 2
    anchors = np.hstack([levels.centres - half, levels.centres + half])
    model = SimpleNamespace(center_sampling_radius=1.5, head=SimpleNamespace(compute_loss=keep))
    FCOS.compute_loss(
        model,
        [{"boxes": torch.from_numpy(boxes)}],
        {},
        [torch.from_numpy(anchors)],
        [level.cells for level in levels.predicted],
    )
    return seen["matched"].numpy()


def test_cells_take_the_boxes_that_torchvisions_fcos_gives_them():
    """There levels go from fine to coarse; ours are turned round for it."""
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 200, (60, 2))
    boxes = np.hstack([low, np.minimum(low + rng.uniform(4, 200, (60, 2)), 256)])
    layers = [Layer(str(g), str(g), 1, g, g) for g in (8, 16, 32)]
    ours = plan_pyramid(layers, (256, 256), 8, sized=True)
    everything = np.ones(60, bool)
    shown = ShownObjects(np.zeros(60, int), boxes, np.arange(60), everything)
    found = assign(shown, ours, UPRIGHT)
    turned = SimpleNamespace(
        predicted=ours.predicted[::-1],
        centres=_turned(ours, ours.centres),
        strides=_turned(ours, ours.strides),
    )
    expected = _turned(turned, torchvision_matches(boxes, turned))
    mine = np.full(ours.cells, -1)
    mine[found.keys] = found.classes
    np.testing.assert_array_equal(mine, expected)
    assert (mine >= 0).sum() > 50 and all(
        (part >= 0).any() for part in np.split(mine, ours.starts[1:-1])
    )


def _turned(levels, rows):
    starts = np.cumsum([level.cells for level in levels.predicted])[:-1]
    return np.concatenate(np.split(rows, starts)[::-1])


def test_centreness_is_that_of_the_paper():
    """sqrt(min(l, r) / max(l, r) * min(t, b) / max(t, b))."""
    for (left, top, right, bottom), value in zip(sides(), centreness(sides()), strict=True):
        across = min(left, right) / max(left, right)
        along = min(top, bottom) / max(top, bottom)
        assert float(value) == pytest.approx(float((across * along) ** 0.5))
