"""The baselines without weights, and what drawing random weights leaves behind."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from helpers.backbones import build
from permafrost.backbones.backbone import Resources, isolated_seed
from permafrost.backbones.imagestats import ImageStatistics
from permafrost.backbones.input.contract import Channel, InputPlan
from permafrost.backbones.rcf import whiten
from permafrost.core.errors import PermafrostError

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")),
]


def plan_of(channels: int, size: int | None = 40) -> InputPlan:
    bands = tuple(Channel(f"b{i}", i) for i in range(channels))
    return InputPlan(bands, size, None, "bilinear", False, "none")


def rcf(plan: InputPlan, images=None, **options):
    image = (lambda i: images[i]) if images is not None else None
    return build({"kind": "rcf", **options}, plan, Resources("rcf", {}, len(images or ()), image))


def test_image_statistics_are_mean_std_max_min():
    images = torch.randn(2, 3, 5, 5)
    features = ImageStatistics()(images)
    assert features.shape == (2, 12)
    torch.testing.assert_close(features[:, 3:6], images.std(dim=(2, 3)))
    assert torch.equal(features[:, 6:9], images.amax(dim=(2, 3)))
    assert torch.equal(features[:, 9:], images.amin(dim=(2, 3)))


def test_a_single_pixel_has_no_spread_and_no_nan():
    assert ImageStatistics()(torch.ones(1, 1, 1, 1)).tolist() == [[1.0, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize("device", DEVICES)
def test_random_convolutions_are_the_means_of_both_rectified_signs(device):
    images = torch.randn(3, 4, 90, 80, device=device)
    backbone = rcf(plan_of(4), features=12, seed=5)
    module = backbone.module.to(device)
    filters = module.filters.view(6, 4, 3, 3)
    maps = torch.nn.functional.conv2d(images, filters, module.biases.flatten())
    expected = torch.cat([maps.relu().mean(dim=(2, 3)), (-maps).relu().mean(dim=(2, 3))], dim=1)
    torch.testing.assert_close(module(images), expected, rtol=1e-4, atol=1e-5)


def test_a_seed_of_zero_is_a_seed():
    zero, one, again = (rcf(plan_of(3), seed=seed).module.filters for seed in (0, 1, 0))
    assert torch.equal(zero, again)
    assert not torch.equal(zero, one)
    expected = torch.randn(256, 3, 3, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(zero, expected.flatten(1))


def test_empirical_filters_come_from_the_images_and_are_the_same_again():
    images = [torch.randn(3, 40, 40, generator=torch.Generator().manual_seed(i)) for i in range(5)]
    first, again = (rcf(plan_of(3), images, mode="empirical").module.filters for _ in range(2))
    other = rcf(plan_of(3), images[::-1], mode="empirical").module.filters
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_empirical_filters_manage_images_of_different_native_sizes():
    images = [torch.randn(3, 40 - 6 * i, 20 + 3 * i) for i in range(5)]
    assert rcf(plan_of(3, None), images, mode="empirical").module.filters.isfinite().all()


def test_whitened_patches_have_little_left_in_common():
    generator = np.random.default_rng(0)
    mixing = generator.normal(size=(12, 12))
    patches = (generator.normal(size=(500, 12)) @ mixing).reshape(500, 3, 2, 2).astype(np.float32)
    white = whiten(patches, bias=1e-9).reshape(500, -1)
    flat = patches.reshape(500, -1) - patches.reshape(500, -1).mean(axis=1, keepdims=True)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    # filtering the patches themselves whitens once: patches' (patches Z Z') is the identity on their span
    response = flat.T @ white / 500
    eigenvalues = np.linalg.eigvalsh((response + response.T) / 2)
    np.testing.assert_allclose(eigenvalues[1:], 1.0, rtol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 7}, "must be a multiple of 2"),
        ({"kernel_size": 41}, "exceeds"),
        ({"mode": "x"}, "not one of"),
    ],
)
def test_impossible_options_are_errors(options, message):
    with pytest.raises(PermafrostError, match=message):
        rcf(plan_of(3), **options)


def test_drawing_weights_leaves_every_generator_as_it_was():
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    expected = (torch.rand(1).item(), np.random.rand(), random.random())
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    with isolated_seed(9):
        inside = (torch.rand(1).item(), np.random.rand(), random.random())
    assert (torch.rand(1).item(), np.random.rand(), random.random()) == expected
    with isolated_seed(9):
        assert (torch.rand(1).item(), np.random.rand(), random.random()) == inside
