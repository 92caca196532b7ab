"""How deep parameters lie, and the learning rates and weight decays that follow."""

from __future__ import annotations

import pytest
import timm
import torch
from permafrost.backbones.backbone import Backbone, learnable_parameters
from permafrost.probes.fine_tune.depth import layers_of
from permafrost.probes.fine_tune.models import Tuned
from timm.optim import param_groups_layer_decay
from torch import nn


class Run:
    """As much of a run as groups are made of."""

    def __init__(self, module: nn.Module) -> None:
        self.backbone = Backbone(module, None, "test")
        self.backbone.learnable = learnable_parameters(module)


class Held(nn.Module):
    """What backbones are wrapped in."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


def shares(module: nn.Module, decay: float) -> tuple[dict[str, float], dict[str, float]]:
    """Learning rate of every parameter as a share of the full one, and its weight decay."""
    run = Run(module)
    layers = layers_of(module, run.backbone.learnable)
    tuned = Tuned(run, nn.Linear(2, 2), layers, batch_norm="frozen", decay=decay)
    names = {id(p): name for name, p in module.named_parameters()}
    rates, decays = {}, {}
    for group in tuned.groups(1.0, 1.0, 0.05):
        for parameter in group["params"]:
            if id(parameter) in names:
                rates[names[id(parameter)]] = group["full"]
                decays[names[id(parameter)]] = group["weight_decay"]
    return rates, decays


@pytest.mark.parametrize("name", ["test_vit", "vit_tiny_patch16_224", "mobilenetv2_100"])
def test_layers_of_a_timm_model_are_those_of_timms_own_groups(name):
    whole = timm.create_model(name, num_classes=10)
    named = {id(p): n for n, p in whole.named_parameters()}
    # timm counts the classifier as the last layer, as the head is here
    exempt = whole.no_weight_decay() if hasattr(whole, "no_weight_decay") else ()
    expected, decays = {}, {}
    for group in param_groups_layer_decay(whole, 0.05, exempt, layer_decay=0.7):
        for parameter in group["params"]:
            expected[named[id(parameter)]] = group["lr_scale"]
            decays[named[id(parameter)]] = group["weight_decay"]
    ours, own = shares(Held(Held(timm.create_model(name, num_classes=0))), 0.7)
    classifier = set(whole.get_classifier().state_dict())
    prefix = whole.default_cfg["classifier"]
    left_out = {f"{prefix}.{one}" for one in classifier}
    assert {f"model.model.{n}" for n in set(expected) - left_out} == set(ours)
    for n, share in ours.items():
        assert share == pytest.approx(expected[n.removeprefix("model.model.")], rel=1e-12), n
        assert own[n] == decays[n.removeprefix("model.model.")], n


class Network(nn.Module):
    """As torchgeo's own: a token, a stem, blocks in a list inside, a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 4))
        self.places = nn.Parameter(torch.zeros(1, 3, 4), requires_grad=False)
        self.embed = nn.Conv2d(3, 4, 2)
        self.encoder = nn.Module()
        self.encoder.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.norm = nn.LayerNorm(4)


def test_other_modules_are_read_by_the_names_of_their_blocks():
    module = Network()
    layers = layers_of(module, learnable_parameters(module))
    assert layers.source == "names"
    assert layers.names == (
        "token, embed",
        "encoder.blocks.0",
        "encoder.blocks.1",
        "encoder.blocks.2",
        "norm",
    )
    rates, decays = shares(Network(), 0.5)
    assert rates["token"] == rates["embed.weight"] == 0.5**5
    assert rates["encoder.blocks.2.bias"] == 0.25 and rates["norm.weight"] == 0.5
    assert {n for n, decay in decays.items() if decay} == {
        "token",
        "embed.weight",
        *(f"encoder.blocks.{i}.weight" for i in range(3)),
    }


def test_what_a_module_keeps_fixed_stays_fixed_unless_it_froze_everything():
    module = Network()
    names = {id(p): name for name, p in module.named_parameters()}
    found = {names[id(p)] for p in learnable_parameters(module)}
    assert "places" not in found and len(found) == len(names) - 1
    module.requires_grad_(False)
    assert len(learnable_parameters(module)) == len(names)


@pytest.mark.parametrize(("name", "block"), [
    ("layer1.0.conv.weight", "layer1.0"), ("features.1.0.norm.bias", "features.1.0"),
    ("net.3.weight", "net.3"), ("stem.conv.weight", "stem"),
])  # fmt: skip
def test_blocks_end_at_the_first_run_of_numbers(name, block):
    from permafrost.probes.fine_tune.depth import _block

    assert _block(name) == block
