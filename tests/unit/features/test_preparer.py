"""From stored pixels to the tensor that a backbone is fed."""

import numpy as np
import pytest
import torch
from helpers.stores.images import card_of, rgb_bands
from permafrost.backbones.input.contract import InputContract, resolve_input
from permafrost.features.prepare import Preparer


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("normalization", ["two_sigma", "percentile", "minmax"])
def test_values_beyond_the_unit_interval_are_clipped_on_request(clip, normalization):
    bands = [{**band, "min": 50.0, "max": 150.0, "p2": 60.0, "p98": 120.0} for band in rgb_bands()]
    contract = InputContract(normalization=normalization, clip=clip, size=None)
    prepare = Preparer(resolve_input(contract, card_of(bands)), torch.device("cpu"))
    stored = np.random.default_rng(0).integers(0, 256, (2, 3, 5, 5)).astype(np.uint8)
    low, high = {"two_sigma": (0.0, 200.0), "percentile": (60.0, 120.0), "minmax": (50.0, 150.0)}[
        normalization
    ]
    wanted = (stored - low) / (high - low)
    assert wanted.max() > 1
    fed = prepare(torch.from_numpy(stored)).numpy()
    assert np.allclose(fed, wanted.clip(0, 1) if clip else wanted, atol=1e-6)
