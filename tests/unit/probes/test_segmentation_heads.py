"""Segmentation heads: structure, equality with the literal construction, what they refuse."""

from __future__ import annotations

import pytest
import torch
from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.layers import mean_and_variance, sum_resized
from permafrost.probes.segmentation.heads import HEADS, build_head
from permafrost.probes.segmentation.heads.enlarged import convolve_enlarged
from permafrost.probes.segmentation.heads.normalised import NormalisedActivation
from torch import nn
from torch.nn import functional

RESNET50 = [2048, 1024, 512, 256]
PYRAMID = [(2, 3), (4, 6), (8, 12), (16, 24)]


def parameters(head) -> int:
    return sum(p.numel() for p in head.parameters())


def maps_of(channels, sizes, batch=3):
    torch.manual_seed(1)
    return [
        (2 + 3 * torch.randn(batch, c, *s, dtype=torch.float64)).contiguous(
            memory_format=torch.channels_last
        )
        for c, s in zip(channels, sizes, strict=True)
    ]


def up(x, size, align_corners=False):
    return functional.interpolate(x, tuple(size), mode="bilinear", align_corners=align_corners)


def literal_linear(head, maps, size):
    parts = [up(c.conv(c.norm(x)), size) for c, x in zip(head.classifiers, maps, strict=True)]
    return sum(part * weight for part, weight in zip(parts, head.weights, strict=True))


def classified(head, levels, common, size):
    joined = torch.cat([up(level, common) for level in levels], dim=1)
    return up(functional.conv2d(joined, head.classify.weight, head.classify.bias), size)


def literal_conv_block(head, maps, size):
    levels = [block(x) for block, x in zip(head.blocks, maps, strict=True)]
    return classified(head, levels, [max(16, n) for n in maps[-1].shape[-2:]], size)


def literal_fpn(head, maps, size):
    levels = [lat.conv(lat.norm(x)) for lat, x in zip(head.laterals, maps, strict=True)]
    for i in range(1, len(levels)):
        levels[i] = levels[i] + up(levels[i - 1], levels[i].shape[-2:])
    smoothers = zip(head.smoothers, head.norms, strict=True)
    levels = [norm(smooth(x)) for (smooth, norm), x in zip(smoothers, levels, strict=True)]
    return classified(head, levels, levels[-1].shape[-2:], size)


def literal_dpt(head, maps, size):
    path = None
    for project, reassemble, fuse, x in zip(
        head.project, head.reassemble, head.fuse, maps, strict=True
    ):
        level = project(reassemble(x))
        path = level if path is None else path + fuse.enter(level)
        twice = [2 * n for n in level.shape[-2:]]
        path = fuse.project(up(fuse.refine(path), twice, align_corners=True))
    return up(head.output(head.smooth(path)), size, align_corners=True)


def literal_norms(head):
    """The same parameters in torch's own normalisation and activation."""
    for module in list(head.modules()):
        for name, child in module.named_children():
            if isinstance(child, NormalisedActivation):
                plain = nn.BatchNorm2d(child.num_features).double()
                plain.load_state_dict(child.state_dict())
                plain.train(child.training)
                kinds = {None: nn.Identity(), "relu": nn.ReLU(), "silu": nn.SiLU()}
                setattr(module, name, nn.Sequential(plain, kinds[child.activation]))
    return head


LITERAL = {
    "linear": literal_linear,
    "conv_block": literal_conv_block,
    "fpn": literal_fpn,
    "dpt": literal_dpt,
}


@pytest.mark.parametrize(
    ("name", "count"), [("linear", 34_592), ("conv_block", 992_263), ("fpn", 3_359_239)]
)
def test_parameters_for_resnet50_and_seven_classes(name, count):
    head = build_head(name, RESNET50, 7, sizes=[(7, 7), (14, 14), (28, 28), (56, 56)])
    assert parameters(head) == count


def test_dpt_on_a_pyramid_has_the_reference_decoder_without_its_unused_unit():
    head = build_head("dpt", RESNET50, 7, sizes=[(7, 7), (14, 14), (28, 28), (56, 56)])
    project = 9 * 256 * sum(RESNET50)
    unit = 2 * (9 * 256 * 256 + 2 * 256)
    fusion = 7 * unit + 4 * (256 * 256 + 256)
    output = 9 * 256 * 256 + 2 * 256 + 7 * 256 + 7
    assert parameters(head) == project + fusion + output


@pytest.mark.parametrize("name", sorted(HEADS))
@pytest.mark.parametrize("training", [True, False])
def test_logits_and_gradients_equal_the_literal_construction(name, training):
    channels = [12, 8, 6, 4]
    torch.manual_seed(0)
    head = build_head(name, channels, 5, hidden=8, sizes=PYRAMID).double()
    twin = build_head(name, channels, 5, hidden=8, sizes=PYRAMID).double()
    for module in [*head.modules(), *twin.modules()]:
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for p in head.parameters():
            p += 0.1 * torch.randn_like(p)
    twin.load_state_dict(head.state_dict())
    head.train(training), twin.train(training)
    maps, size = maps_of(channels, PYRAMID), (33, 50)
    found, expected = head(maps, size), LITERAL[name](literal_norms(twin), maps, size)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    weights = torch.randn_like(expected)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    for (key, p), q in zip(head.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-7, atol=1e-7, msg=lambda m, k=key: k + m)
    # what is used on test images is learned alike
    for (key, a), b in zip(head.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m, k=key: k + m)


def test_reduced_precision_keeps_normalisation_and_projection_apart():
    """A shift that is large beside the spread would cancel the digits of bfloat16."""
    head = build_head("linear", [4], 3, sizes=[(8, 8)])
    torch.manual_seed(0)
    x = 500 + torch.randn(4, 4, 8, 8)
    exact = head([x], (8, 8)).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head([x], (8, 8)).detach()
    assert (found - exact).abs().max() < 0.05


def test_a_linear_head_on_one_layer_has_no_weight():
    head = build_head("linear", [10], 3, sizes=[(4, 4)])
    assert head.weights is None and parameters(head) == 2 * 10 + 10 * 3 + 3


def test_conv_block_meets_on_sixteen_pixels_at_least():
    head = build_head("conv_block", [6], 2, hidden=4, sizes=[(1, 1)]).double().eval()
    x = maps_of([6], [(5, 20)])
    levels = [head.blocks[0](x[0])]
    expected = classified(head, levels, (16, 20), (40, 40))
    torch.testing.assert_close(head(x, (40, 40)), expected)


def test_dpt_resamples_four_maps_of_one_size_to_a_pyramid():
    head = build_head("dpt", [16] * 4, 3, hidden=8, sizes=[(6, 4)] * 4).double()
    maps = maps_of([16] * 4, [(6, 4)] * 4)
    sizes = [tuple(r(x).shape[1:]) for r, x in zip(head.reassemble, maps, strict=True)]
    assert sizes == [(16, 3, 2), (8, 6, 4), (4, 12, 8), (2, 24, 16)]
    assert head(maps, (96, 64)).shape == (3, 3, 96, 64)


def test_dpt_takes_sizes_that_do_not_double():
    sizes = [(8, 7), (15, 14), (29, 27), (57, 53)]
    head = build_head("dpt", [4] * 4, 2, hidden=4, sizes=sizes).double()
    assert head(maps_of([4] * 4, sizes), (225, 210)).shape == (3, 2, 225, 210)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ((5, 7), (10, 14)),
        ((20, 33), (40, 70)),
        ((8, 8), (64, 50)),
        ((1, 3), (5, 9)),
        ((4, 4), (5, 5)),
    ],
)
@pytest.mark.parametrize("align_corners", [False, True])
def test_a_convolution_of_an_enlarged_map_is_the_same_in_either_order(
    source, target, align_corners
):
    (x,) = maps_of([6], [source])
    twins = [x.clone().requires_grad_(True) for _ in range(2)]
    convs = [nn.Conv2d(6, 4, 3, padding=1, bias=False).double() for _ in range(2)]
    convs[1].load_state_dict(convs[0].state_dict())
    found = convolve_enlarged(twins[0], convs[0], target, align_corners=align_corners)
    expected = convs[1](up(twins[1], target, align_corners))
    torch.testing.assert_close(found, expected)
    slope = torch.randn_like(expected)
    found.backward(slope), expected.backward(slope)
    torch.testing.assert_close(twins[0].grad, twins[1].grad)
    torch.testing.assert_close(convs[0].weight.grad, convs[1].weight.grad)


@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_normalisation_with_activation_has_the_right_gradients(activation):
    (x,) = maps_of([3], [(40, 30)])
    module = NormalisedActivation(3, activation).double()
    with torch.no_grad():
        module.weight.uniform_(0.5, 2), module.bias.uniform_(-1, 1)
    twin = literal_norms(nn.Sequential(module))
    module = NormalisedActivation(3, activation).double()
    module.load_state_dict(twin[0][0].state_dict())
    inputs = [x.clone().requires_grad_(True) for _ in range(2)]
    found, expected = module(inputs[0]), twin(inputs[1])
    torch.testing.assert_close(found, expected)
    slope = torch.randn_like(expected)
    found.backward(slope), expected.backward(slope)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    torch.testing.assert_close(module.running_var, twin[0][0].running_var)


@pytest.mark.parametrize("align_corners", [False, True])
def test_few_channels_are_resized_as_torch_does(align_corners):
    maps = maps_of([3] * 4, [(5, 7), (5, 7), (9, 1), (20, 31)])
    found = sum_resized(maps, (20, 31), align_corners=align_corners)
    expected = sum(up(x, (20, 31), align_corners) for x in maps)
    torch.testing.assert_close(found, expected)


def test_statistics_of_a_batch_are_exact_far_from_zero():
    torch.manual_seed(0)
    x = 1000 + torch.randn(4, 3, 70, 70)
    mean, variance = mean_and_variance(x)
    wide = x.double()
    torch.testing.assert_close(mean.double(), wide.mean(dim=(0, 2, 3)), rtol=1e-6, atol=0)
    expected = wide.var(dim=(0, 2, 3), correction=0)
    torch.testing.assert_close(variance.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("fpn", [(1, 1), (4, 4), (8, 8), (16, 16)], "number 1 gives 1x1"),
        ("dpt", [(1, 1), (4, 4), (8, 8), (16, 16)], "number 1 gives 1x1"),
        ("fpn", [(16, 16), (8, 8), (4, 4), (2, 2)], "coarse to fine"),
        ("dpt", [(4, 4), (8, 8), (16, 16)], "exactly 4 layers, got 3"),
        ("unet", [(4, 4)], "unknown head"),
    ],
)
def test_maps_that_a_head_cannot_take_are_refused_by_name(name, sizes, message):
    with pytest.raises(PermafrostError, match=message) as caught:
        build_head(name, [4] * len(sizes), 3, sizes=sizes, where="toy/made-up/layer4")
    assert caught.value.where == "toy/made-up/layer4" and caught.value.remedy
