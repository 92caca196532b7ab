"""From what a layer returns to a map, and which layers are hooked."""

from __future__ import annotations

import pytest
import torch
from permafrost.backbones.backbone import WithMaps
from permafrost.backbones.outputs.layers import (
    Dense,
    blocks_of,
    choose_layers,
    evenly_spaced,
    patch_grid,
    to_map,
)
from permafrost.core.errors import PermafrostError
from torch import nn


def mapped(output, fed=(2, 32, 48), name="layer", **fields) -> torch.Tensor:
    return to_map(output, name, Dense(nn.Identity(), **fields), fed, where="backbone x")


def test_a_vector_is_one_cell():
    vectors = torch.randn(2, 5)
    assert torch.equal(mapped(vectors), vectors.reshape(2, 5, 1, 1))


def test_maps_stay_as_they_are_unless_the_model_declares_channels_last():
    values = torch.randn(2, 7, 4, 6)
    assert torch.equal(mapped(values), values)
    turned = values.permute(0, 2, 3, 1)
    assert torch.equal(mapped(turned, layout="NHWC"), values)
    assert torch.equal(mapped(turned, layouts={"layer": "NHWC"}), values)


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_tokens_lie_row_by_row_on_the_models_grid_after_the_prefix(prefix):
    tokens = torch.randn(2, prefix + 2 * 3, 7)
    values = mapped(tokens, prefix_tokens=prefix, grid=patch_grid((16, 16)))
    assert values.shape == (2, 7, 2, 3)
    for row in range(2):
        for column in range(3):
            assert torch.equal(values[:, :, row, column], tokens[:, prefix + 3 * row + column])


def test_four_evenly_spaced_blocks_end_with_the_last():
    assert blocks_of(12) == ("blocks.11", "blocks.8", "blocks.5", "blocks.2")
    assert blocks_of(24, "layers") == ("layers.23", "layers.17", "layers.11", "layers.5")
    assert evenly_spaced(6) == [5, 4, 2, 1]
    assert evenly_spaced(4) == [3, 2, 1, 0]
    assert evenly_spaced(2) == [1, 0]


@pytest.mark.parametrize(
    ("output", "fields", "message"),
    [
        ([torch.zeros(2, 3)], {}, "returned a list of 1, not a tensor"),
        (None, {}, "returned a NoneType"),
        (torch.zeros(2, 3, 4, 4, 4), {}, "of shape"),
        (torch.zeros(6, 3), {}, "not features of 2 images"),
        (torch.zeros(2, 3, dtype=torch.int64), {}, "int64"),
        (torch.zeros(2, 6, 3), {}, "does not define their grid"),
        (torch.zeros(2, 7, 3), {"grid": patch_grid((16, 16))}, "7 tokens.*32 x 48.*grid of 2 x 3"),
        # five tokens and four: a square guess would have taken both
        (torch.zeros(2, 4, 3), {"grid": patch_grid((16, 16))}, "4 tokens"),
        # the trap of 256 patches and five prefix tokens with 1024 channels
        (torch.zeros(2, 261, 1024), {"grid": lambda h, w: (16, 16)}, "261 tokens"),
        (torch.zeros(2, 4, 6, 70), {}, "which is not a map of images of 32 x 48"),
        (torch.zeros(2, 7, 4, 6), {"layout": "NHWC"}, "the layout of the model, NHWC"),
        (torch.zeros(2, 7, 4, 6), {"layouts": {"layer": "tokens"}}, "declared tokens"),
        (torch.zeros(2, 6, 7), {"layouts": {"layer": "NCHW"}}, "declared NCHW"),
        (torch.zeros(2, 7, 4, 6), {"channels": {"layer": 8}}, "declares 8 channels"),
    ],
)
def test_what_is_no_map_is_an_error_that_names_the_layer(output, fields, message):
    with pytest.raises(PermafrostError, match=f"(?s)backbone x: layer layer: .*{message}"):
        mapped(output, **fields)


class Net(nn.Module):
    """Two stages, one of them reused, one changed in place, one never called."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 4, 2, 2), nn.Conv2d(4, 8, 2, 2)
        self.twice, self.never, self.pair = nn.Identity(), nn.Identity(), Pair()

    def forward(self, images):
        fine = self.fine(images)
        coarse = self.coarse(self.twice(self.twice(fine)))
        self.pair(coarse)
        fine.zero_()
        return coarse.mean(dim=(2, 3))


class Pair(nn.Module):
    def forward(self, values):
        return values, values


def with_maps(names, dtype=torch.float32, **fields):
    net = Net()
    return net, WithMaps(net, Dense(net, **fields), names, dtype, where="backbone x")


def test_the_output_is_that_of_the_module_and_the_maps_come_in_the_order_of_the_names():
    net, both = with_maps(("coarse", "fine"))
    images = torch.randn(2, 3, 8, 12)
    with torch.inference_mode():
        output, (coarse, fine) = both(images)
        expected = net.fine(images)
        assert torch.equal(fine, expected), "a later change in place must not reach the map"
        assert torch.equal(coarse, net.coarse(expected))
        assert torch.equal(output, coarse.mean(dim=(2, 3)))


def test_maps_are_converted_and_contiguous():
    _, both = with_maps(("fine",), torch.float16)
    with torch.inference_mode():
        (fine,) = both(torch.randn(2, 3, 8, 12).to(memory_format=torch.channels_last))[1]
    assert fine.dtype == torch.float16 and fine.is_contiguous()


def test_what_a_module_is_given_may_be_a_layer():
    net, both = with_maps(("stem",), given_to={"stem": "coarse"})
    images = torch.randn(2, 3, 8, 12)
    with torch.inference_mode():
        assert torch.equal(both(images)[1][0], net.fine(images))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("never", "does not call the layer 'never'"),
        ("twice", "'twice' more than once"),
        ("pair", "layer pair: the layer returned a tuple of 2"),
    ],
)
def test_a_layer_that_gives_no_one_map_is_an_error(name, message):
    _, both = with_maps((name,))
    with pytest.raises(PermafrostError, match=message):
        both(torch.randn(2, 3, 8, 12))


def test_an_unknown_layer_is_told_with_near_names():
    with pytest.raises(PermafrostError, match="no layer 'coarce', did you mean 'coarse'"):
        choose_layers(Dense(Net()), ["coarce"], where="backbone x")


def test_a_layer_is_named_once():
    with pytest.raises(PermafrostError, match="names a layer twice"):
        choose_layers(Dense(Net()), ["fine", "fine"], where="backbone x")


def test_without_default_layers_the_error_says_how_to_name_them():
    with pytest.raises(
        PermafrostError, match="no default layers.*because.*`layers:`.*fine, coarse"
    ):
        choose_layers(Dense(Net(), missing="because"), None, where="backbone x")


def test_the_layers_of_the_entry_come_first():
    dense = Dense(Net(), layers=("coarse", "fine"))
    assert choose_layers(dense, None, where="x") == ("coarse", "fine")
    assert choose_layers(dense, ["fine"], where="x") == ("fine",)
