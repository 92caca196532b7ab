"""Random convolutional features against ``torchgeo.models.RCF``."""

from __future__ import annotations

import pytest
import torch
from helpers.backbones import build
from permafrost.backbones.backbone import Resources
from permafrost.backbones.input.contract import Channel, InputPlan


def plan_of(channels: int) -> InputPlan:
    return InputPlan(
        tuple(Channel(f"b{i}", i) for i in range(channels)), 40, None, "bilinear", False, "none"
    )


class Images(torch.utils.data.Dataset):
    def __init__(self, count: int, channels: int) -> None:
        self.images = torch.randn(
            count, channels, 40, 40, generator=torch.Generator().manual_seed(1)
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index) -> dict:
        return {"image": self.images[int(index)]}


@pytest.fixture(scope="module")
def torchgeo_rcf():
    from torchgeo.models import RCF

    return RCF


@pytest.mark.parametrize("channels", [3, 5])
@pytest.mark.parametrize("mode", ["gaussian", "empirical"])
@pytest.mark.parametrize("kernel_size", [3, 4])
def test_same_features_as_torchgeo(torchgeo_rcf, mode, channels, kernel_size):
    images = Images(9, channels)
    theirs = torchgeo_rcf(channels, 64, kernel_size, -1.0, seed=7, mode=mode, dataset=images)
    resources = Resources("rcf", {}, len(images), lambda i: images[i]["image"])
    entry = {"kind": "rcf", "features": 64, "kernel_size": kernel_size, "seed": 7, "mode": mode}
    ours = build(entry, plan_of(channels), resources)
    # float32 covariance and a general eigensolver there, float64 and a symmetric one here
    tolerance = 1e-5 if mode == "gaussian" else 1e-3
    expected = theirs(images.images)
    torch.testing.assert_close(
        ours.features(images.images),
        expected,
        rtol=tolerance,
        atol=tolerance * float(expected.max()),
    )


def test_the_seed_of_a_fresh_generator_gives_torchgeos_unseeded_filters(torchgeo_rcf):
    """torchgeo drops a seed of 0 and draws from a fresh generator; the catalogue's `rcf` says so."""
    theirs = torchgeo_rcf(3, 512, seed=0)
    entry = {"kind": "rcf", "seed": 67280421310721}
    ours = build(entry, plan_of(3), Resources("rcf", {}, 0, None))
    assert torch.equal(ours.module.filters, theirs.weights.flatten(1))
