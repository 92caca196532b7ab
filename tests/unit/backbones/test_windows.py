"""The maps of the baselines, against plain torch over the whole image."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.backbones import build
from permafrost.backbones import imagestats, rcf
from permafrost.backbones.backbone import Resources
from permafrost.backbones.input.contract import Channel, InputPlan
from permafrost.core.errors import PermafrostError

SIZES = [(64, 64), (37, 50), (17, 8), (5, 4)]


def made(kind, entry=None, channels=3):
    plan = InputPlan(
        tuple(Channel(f"b{i}", i) for i in range(channels)), None, None, "bilinear", False, "none"
    )
    name = kind.__name__.rpartition(".")[2]
    return build({"kind": name, **(entry or {})}, plan, Resources("backbone x", {}, 0, None))


def images(size) -> torch.Tensor:
    return torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(0)) * 40 + 1000


@pytest.mark.parametrize("size", SIZES)
def test_image_statistics_of_windows(size):
    pixels, backbone = images(size), made(imagestats)
    alone = backbone.features(pixels)
    backbone.make_maps(None, torch.float32)
    assert backbone.layers == ("stride32", "stride16", "stride8", "stride4")
    pooled, maps = backbone.features_and_maps(pixels)
    assert torch.equal(pooled, alone)
    for stride, values in zip((32, 16, 8, 4), maps, strict=True):
        rows, columns = -(-size[0] // stride), -(-size[1] // stride)
        assert values.shape == (3, 12, rows, columns)
        for row in range(rows):
            for column in range(columns):
                window = pixels[:, :, row * stride :, column * stride :][:, :, :stride, :stride]
                # one window by itself is an image, whose statistics are tested elsewhere
                expected = made(imagestats).features(window)
                torch.testing.assert_close(
                    values[:, :, row, column], expected, rtol=1e-5, atol=1e-3
                )


def responses(backbone, pixels, kernel: int) -> torch.Tensor:
    module = backbone.module
    filters = module.filters.reshape(-1, 3, kernel, kernel)
    values = F.conv2d(pixels, filters, module.biases[:, 0])
    before, after = (kernel - 1) // 2, kernel // 2
    values = F.pad(values, (before, after, before, after), mode="replicate")
    return torch.cat([values.relu(), (-values).relu()], dim=1)


@pytest.mark.parametrize("kernel", [1, 3, 4])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layers", [None, ["stride12", "stride6", "stride4"]])
def test_mean_responses_of_random_convolutions_in_windows(size, kernel, layers, monkeypatch):
    # so few places at once that every size takes several strips
    monkeypatch.setattr(rcf, "_AT_ONCE", {"cpu": (2, 40)})
    pixels = images(size)
    backbone = made(rcf, {"features": 16, "kernel_size": kernel})
    alone, expected = backbone.features(pixels), responses(backbone, pixels, kernel)
    backbone.make_maps(layers, torch.float32)
    strides = (12, 6, 4) if layers else (64, 32, 16, 8)
    pooled, maps = backbone.features_and_maps(pixels)
    assert torch.equal(pooled, alone)
    for stride, values in zip(strides, maps, strict=True):
        means = F.avg_pool2d(expected, stride, ceil_mode=True, count_include_pad=False)
        torch.testing.assert_close(values, means, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", [imagestats, rcf])
@pytest.mark.parametrize("name", ["stride", "stride0", "layer4", "stride8.5"])
def test_other_layers_are_an_error(kind, name):
    with pytest.raises(PermafrostError, match=rf"no layer '{name}'.*strideN"):
        made(kind).make_maps([name], torch.float32)
