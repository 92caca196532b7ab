"""Parameters and FLOPs of known networks against published numbers and a count by hooks."""

from __future__ import annotations

import pytest
import torch
from helpers.stages.profiling import card_in, profile
from torch import nn


def counted_by_hooks(module: nn.Module, images: torch.Tensor) -> int:
    """Twice the multiply-adds of convolutions and linear layers, from the shapes that pass through them."""
    total = [0]

    def count(layer, inputs, output) -> None:
        if isinstance(layer, nn.Conv2d):
            rows, columns = layer.kernel_size
            fan = layer.in_channels // layer.groups * rows * columns
            total[0] += 2 * output.numel() * fan
        elif isinstance(layer, nn.Linear):
            total[0] += 2 * output.numel() * layer.in_features

    for layer in module.modules():
        layer.register_forward_hook(count)
    with torch.no_grad():
        module(images)
    return total[0]


@pytest.mark.parametrize("model", ["resnet18", "mobilenetv2_100"])
def test_a_network_of_timm_costs_what_is_known_of_it(tmp_path, model):
    import timm

    entry = {
        "kind": "timm",
        "model": model,
        "weights": {"source": "random"},
        "input": {"bands": "rgb", "normalization": "dataset"},
    }
    found = profile(
        tmp_path,
        entry,
        card=card_in(tmp_path, size=(64, 64)),
        extraction={"size": 224},
        batch_size=1,
        latency_repeats=3,
    ).quantities
    network = timm.create_model(model, num_classes=0).eval()
    assert found["parameters"].value == sum(one.numel() for one in network.parameters())
    assert found["flops"].value == counted_by_hooks(network, torch.zeros(1, 3, 224, 224))
    # with the classifier of 1000 classes, which extraction takes off, as papers and torchvision count them
    millions, multiply_adds = {"resnet18": (11.69, 1.814e9), "mobilenetv2_100": (3.50, 0.3008e9)}[
        model
    ]
    head = 1000 * network.num_features
    assert (found["parameters"].value + head + 1000) / 1e6 == pytest.approx(millions, abs=0.006)
    assert found["flops"].value / 2 + head == pytest.approx(multiply_adds, rel=1e-3)
