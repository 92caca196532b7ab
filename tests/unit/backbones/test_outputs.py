"""From whatever a backbone returns to one vector per image."""

from __future__ import annotations

import pytest
import torch
from permafrost.backbones.outputs.pooling import pool_output
from permafrost.core.errors import PermafrostError

TOKENS = torch.arange(2 * 6 * 3, dtype=torch.float32).reshape(2, 6, 3)


def test_vectors_stay_as_they_are():
    vectors = torch.randn(4, 7)
    assert pool_output(vectors) is vectors


def test_mean_leaves_out_class_and_register_tokens():
    assert torch.equal(pool_output(TOKENS, prefix_tokens=3), TOKENS[:, 3:].mean(dim=1))
    assert torch.equal(pool_output(TOKENS, prefix_tokens=0), TOKENS.mean(dim=1))


def test_cls_is_the_first_token_and_both_is_one_after_the_other():
    assert torch.equal(pool_output(TOKENS, pooling="cls", prefix_tokens=2), TOKENS[:, 0])
    both = pool_output(TOKENS, pooling="both", prefix_tokens=2)
    assert torch.equal(both, torch.cat([TOKENS[:, 0], TOKENS[:, 2:].mean(dim=1)], dim=1))


def test_maps_are_pooled_in_the_layout_that_the_model_declares():
    maps = torch.randn(2, 5, 4, 4)
    assert torch.equal(pool_output(maps), maps.mean(dim=(2, 3)))
    # a square stage whose channels could be taken for space
    assert torch.equal(pool_output(maps, layout="NHWC"), maps.mean(dim=(1, 2)))


@pytest.mark.parametrize(
    "keys", [("norm", "global_pool"), ("global_pool", "head.global_pool"), ("head.global_pool",)]
)
def test_of_a_mapping_the_first_known_key_counts(keys):
    output = {
        "other": None,
        **{key: torch.full((2, 3), float(i)) for i, key in reversed(list(enumerate(keys)))},
    }
    assert pool_output(output).unique().tolist() == [0.0]


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        (torch.zeros(2), {}, r"shape \(2,\)"),
        (torch.zeros(1, 2, 3, 4, 5), {}, r"shape \(1, 2, 3, 4, 5\)"),
        ({"logits": torch.zeros(2, 3)}, {}, "logits, none of"),
        ([torch.zeros(2, 3)], {}, "returned a list"),
        (TOKENS, {"pooling": "cls"}, "declares none"),
        (TOKENS, {"prefix_tokens": 6}, "declares 6 prefix tokens"),
        (torch.zeros(2, 3, 4, 4), {"pooling": "both"}, "needs tokens"),
    ],
)
def test_anything_else_is_an_error_that_shows_what_came(output, options, message):
    with pytest.raises(PermafrostError, match=message):
        pool_output(output, **options)
