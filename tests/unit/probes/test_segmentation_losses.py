"""Losses by name: where they may come from, what they ignore, and unified focal loss by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from permafrost.core.errors import PermafrostError
from permafrost.probes.segmentation.losses import SMOOTH, Loss, UnifiedFocalLoss

CPU = torch.device("cpu")
UNIFIED = "permafrost.probes.segmentation.losses.UnifiedFocalLoss"
NAMED = [
    ("torch.nn.CrossEntropyLoss", {"weight": [1, 2, 0.5]}),
    ("torch.nn.CrossEntropyLoss", {"label_smoothing": 0.1}),
    ("segmentation_models_pytorch.losses.DiceLoss", {"mode": "multiclass"}),
    ("segmentation_models_pytorch.losses.FocalLoss", {"mode": "multiclass"}),
    ("segmentation_models_pytorch.losses.JaccardLoss", {"mode": "multiclass"}),
    ("segmentation_models_pytorch.losses.LovaszLoss", {"mode": "multiclass"}),
    ("segmentation_models_pytorch.losses.TverskyLoss", {"mode": "multiclass"}),
    ("kornia.losses.FocalLoss", {"alpha": 0.5, "reduction": "mean"}),
    ("kornia.losses.DiceLoss", {}),
    ("kornia.losses.TverskyLoss", {"alpha": 0.5, "beta": 0.5}),
    (UNIFIED, {"weight": [1, 2, 0.5], "log_cosh": True}),
]


def loss(name="torch.nn.CrossEntropyLoss", ignore_index=255, **arguments):
    return Loss(
        name, arguments, classes=3, ignore_index=ignore_index, device=CPU, where="toy: loss"
    )


def case(ignored=True):
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 6, 5, requires_grad=True)
    masks = torch.randint(0, 3, (2, 6, 5))
    if ignored:
        masks[0, :2], masks[1, 4] = 255, 255
    return logits, masks


@pytest.mark.parametrize(("name", "arguments"), NAMED)
def test_ignored_pixels_change_neither_loss_nor_gradient(name, arguments):
    logits, masks = case()
    function = loss(name, **arguments)
    value = function(logits, masks)
    value.backward()
    gone = (masks == 255)[:, None].expand_as(logits)
    assert torch.isfinite(value) and (logits.grad[gone] == 0).all()
    assert (logits.grad[~gone] != 0).any()
    other = logits.detach() + 5 * torch.randn_like(logits) * gone
    torch.testing.assert_close(function(other, masks), value.detach())


@pytest.mark.parametrize(("name", "arguments"), NAMED)
def test_better_logits_have_a_smaller_loss(name, arguments):
    logits, masks = case(ignored=False)
    function = loss(name, **arguments)
    right = torch.nn.functional.one_hot(masks, 3).permute(0, 3, 1, 2).float()
    assert function(6 * right, masks) < function(logits, masks) < function(-6 * right, masks)


def test_a_batch_of_ignored_pixels_has_no_loss():
    logits, masks = case()
    for name in ("torch.nn.CrossEntropyLoss", "segmentation_models_pytorch.losses.JaccardLoss"):
        arguments = {"mode": "multiclass"} if "models" in name else {}
        assert loss(name, **arguments)(logits, torch.full_like(masks, 255)) is None


def test_without_ignore_value_every_pixel_counts():
    logits, masks = case(ignored=False)
    expected = torch.nn.functional.cross_entropy(logits, masks)
    assert loss(ignore_index=None)(logits, masks) == expected
    assert loss(ignore_index=None).described["ignored_pixels"] is None
    assert loss().described["ignored_pixels"] == "by the loss"


def test_an_ignore_value_that_is_a_class_is_ignored():
    logits, masks = case(ignored=False)
    expected = torch.nn.functional.cross_entropy(logits, masks, ignore_index=1)
    assert loss(ignore_index=1)(logits, masks) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("os.system", {}, "is not allowed"),
        ("torch.hub.load", {"repo_or_dir": "x"}, "is not allowed"),
        ("torch.nnx.CrossEntropyLoss", {}, "is not allowed"),
        ("kornia.losses.__import__", {}, "no loss"),
        ("permafrost.stages.run.main", {}, "is not allowed"),
        ("permafrost.probes.segmentation.losses.SMOOTH", {}, "not a class"),
        ("torch.nn.functional.cross_entropy", {}, "not a class of loss"),
        ("torch.nn.CrossEntropy", {}, "no loss"),
        ("torch.nn.CrossEntropyLoss", {"gamma": 2}, "cannot be built.*gamma"),
        ("torch.nn.CrossEntropyLoss", {"weight": [1, 2]}, "2 weights for 3 classes"),
        (UNIFIED, {"gamma": 1.5}, "gamma = 1.5"),
    ],
)
def test_losses_that_cannot_be_used_are_refused(name, arguments, message):
    with pytest.raises(PermafrostError, match=message):
        loss(name, **arguments)


def test_a_loss_that_ignores_another_value_than_the_dataset_is_refused():
    with pytest.raises(PermafrostError, match="ignores 0, the dataset 255"):
        Loss(
            "torch.nn.CrossEntropyLoss",
            {"ignore_index": 0},
            classes=3,
            ignore_index=255,
            device=CPU,
        )


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("torch.nn.BCEWithLogitsLoss", {}, "failed on logits"),
        ("torch.nn.CrossEntropyLoss", {"reduction": "none"}, "one number per batch"),
    ],
)
def test_losses_that_fail_say_how(name, arguments, message):
    with pytest.raises(PermafrostError, match=message):
        loss(name, **arguments)(*case())


def test_unified_focal_loss_is_its_formula():
    logits, masks = case()
    lam, gamma, delta, weight = 0.3, 0.4, 0.7, torch.tensor([1.0, 2.0, 0.5])
    found = UnifiedFocalLoss(lam, gamma, delta, weight, ignore_index=255)(logits, masks)
    p = torch.softmax(logits.detach().double(), dim=1).permute(0, 2, 3, 1).numpy()
    valid = masks.numpy() != 255
    p, truth = p[valid], masks.numpy()[valid]
    true = p[np.arange(len(p)), truth]
    entropy = (weight.numpy()[truth] * (1 - true) ** (1 - gamma) * -np.log(true)).mean()
    tversky = []
    for c in range(3):
        tp = p[truth == c, c].sum()
        fp, fn = p[truth != c, c].sum(), (1 - p[truth == c, c]).sum()
        index = (tp + SMOOTH) / (tp + (1 - delta) * fp + delta * fn + SMOOTH)
        tversky.append((1 - index) ** gamma)
    expected = lam * entropy + (1 - lam) * np.mean(tversky)
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)


def test_unified_focal_loss_has_a_finite_gradient_where_everything_is_right():
    masks = torch.randint(0, 3, (1, 4, 4))
    right = 100 * torch.nn.functional.one_hot(masks, 3).permute(0, 3, 1, 2).float()
    right.requires_grad_(True)
    UnifiedFocalLoss()(right, masks).backward()
    assert torch.isfinite(right.grad).all()
