"""Parameters and FLOPs against closed forms, and the quantities that are made of repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from permafrost.features.profiling.counting import count_flops, size_of
from permafrost.features.profiling.quantity import repeated
from torch import nn
from torch.nn import functional as F


def flops(module: nn.Module, *shape: int):
    return count_flops(lambda: module.eval()(torch.zeros(shape)))


@pytest.mark.parametrize("inference", [False, True])
def test_convolution_and_linear_layers_count_two_for_a_multiply_add(inference):
    convolution = nn.Sequential(
        nn.Conv2d(6, 8, (3, 5), stride=2, padding=1, groups=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 7),
    )
    rows, columns = (16 + 2 - 3) // 2 + 1, (20 + 2 - 5) // 2 + 1
    with torch.inference_mode(inference):
        found = flops(convolution, 1, 6, 16, 20)
    assert found.value == 2 * (8 * rows * columns * 3 * 3 * 5 + 8 * 7)
    assert {"relu", "mean"} <= set(found.notes["uncounted"]) and found.repeats is None
    assert not {"convolution", "addmm", "view"} & set(found.notes["uncounted"])


@pytest.mark.parametrize("inference", [False, True])
def test_attention_is_counted_also_where_torch_would_fuse_it(inference):
    length, width = 12, 8
    attention = nn.MultiheadAttention(width, 2, batch_first=True).eval()
    encoder = nn.TransformerEncoderLayer(width, 2, dim_feedforward=20, batch_first=True).eval()
    tokens = torch.zeros(1, length, width)
    products = 2 * 2 * length * length * width
    own = 2 * length * width * 4 * width + products
    with torch.inference_mode(inference):
        found = count_flops(lambda: attention(tokens, tokens, tokens, need_weights=False))
        layer = count_flops(lambda: encoder(tokens))
        plain = count_flops(
            lambda: F.scaled_dot_product_attention(tokens[None], tokens[None], tokens[None])
        )
    assert found.value == own and plain.value == products
    assert layer.value == own + 2 * 2 * length * width * 20
    assert torch.backends.mha.get_fastpath_enabled()


def test_what_is_not_counted_at_all_has_no_value_and_a_reason():
    found = count_flops(lambda: torch.ones(1, 3, 8, 8).std((2, 3)).exp())
    assert math.isnan(found.value)
    assert found.notes["undefined"] == "none of its operators is counted (exp, std)"


def test_every_tensor_is_counted_once_and_in_its_own_type():
    linear = nn.Linear(4, 4, bias=False)
    module = nn.Sequential(linear, nn.BatchNorm1d(4), linear).half()
    module.extra = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    size = size_of(module)
    assert size.parameters == 16 + 8 + 3
    assert size.buffers == 4 + 4 + 1
    assert size.bytes == 2 * (16 + 8) + 8 * 3 + 2 * 8 + 8


def test_repeats_become_their_median_between_quartiles():
    values = [5.0, 1.0, 2.0, 4.0, 3.0, 9.0]
    found = repeated(values, "ms")
    assert (found.lower, found.value, found.upper) == tuple(np.quantile(values, (0.25, 0.5, 0.75)))
    assert found.repeats == 6


@pytest.mark.parametrize(("values", "flagged"), [([10, 10, 11], False), ([10, 10, 20], True)])
def test_repeats_that_spread_are_flagged(values, flagged):
    assert ("flag" in repeated(values, "ms").notes) == flagged
