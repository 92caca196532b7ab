"""From stored pixels to the tensor that a backbone is fed."""

import dataclasses

import numpy as np
import pytest
import torch
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
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


def radar(unit: str, **fields) -> list[dict]:
    known = {"sensor": "sentinel1", "unit": unit, "scale": 1.0, **fields}
    return [band(name, common_name=name.lower(), **known) for name in ("VV", "VH")]


def test_linear_power_reaches_weights_in_decibels():
    contract = InputContract(
        bands=("VH", "VV"),
        sensor="sentinel1",
        normalization="weights",
        unit="db",
        mean=(-20.0, -12.0),
        std=(6.0, 5.0),
        size=None,
    )
    plan = resolve_input(contract, card_of(radar("linear_power", scale=0.5, offset=-0.001)))
    stored = np.random.default_rng(0).lognormal(-3, 1, (2, 2, 5, 5)).astype(np.float32)
    # no power, and less than none, are as the least one
    stored[0, :, 0, 0], stored[0, :, 0, 1] = 0.0, -1.0
    power = stored.astype(np.float64) * 0.5 - 0.001
    decibels = 10 * np.log10(np.maximum(power, 1e-5))
    means, stds = np.array([-20.0, -12.0]), np.array([6.0, 5.0])
    wanted = (decibels[:, ::-1] - means[:, None, None]) / stds[:, None, None]
    # as they are read: in the order fed
    given = torch.from_numpy(stored[:, ::-1].copy())
    fed = Preparer(plan, torch.device("cpu"))(given).numpy()
    np.testing.assert_allclose(fed, wanted, atol=1e-5)
    assert fed[0, 1, 0, 0] == pytest.approx((-50 + 12) / 5)
    told = plan.describe()
    assert (told["to_decibels"], told["power_floor"]) == (["VH", "VV"], 1e-5)
    # radar in dB is fed as before
    of_decibels = resolve_input(contract, card_of(radar("db")))
    assert "to_decibels" not in of_decibels.describe()
    same = Preparer(of_decibels, torch.device("cpu"))(
        torch.from_numpy(decibels[:, ::-1].astype(np.float32))
    )
    np.testing.assert_allclose(same.numpy(), wanted, atol=1e-5)


def test_absent_bands_are_filled_by_name_and_copies_are_their_source():
    """Every band holds its own number, so that a fill in another's place would be seen."""
    names = ("B02", "B03", "B11")
    wanted = ("B10", "B03", "B01", "B11", "B02")
    bands = sentinel2_bands(names)
    stored = torch.tensor([2.0, 3.0, 11.0]).view(1, 3, 1, 1).expand(2, 3, 4, 4)
    numbers = {"mean": (1.0, 2.0, 4.0, 8.0, 16.0), "std": (1.0, 2.0, 3.0, 4.0, 5.0)}
    contract = InputContract(
        bands=wanted,
        sensor="sentinel2",
        normalization="weights",
        unit="digital_number",
        size=None,
        **numbers,
    )

    def fed(**fields) -> torch.Tensor:
        plan = resolve_input(dataclasses.replace(contract, **fields), card_of(bands))
        read = stored[:, plan_order(plan)]
        return Preparer(plan, torch.device("cpu"))(read)

    filled = fed(missing="zero")
    want = torch.tensor([0.0, (3 - 2) / 2, 0.0, (11 - 8) / 4, (2 - 16) / 5])
    assert torch.equal(filled, want.view(1, 5, 1, 1).expand(2, 5, 4, 4))
    assert filled[:, 0].std() == 0
    copied = fed(missing="nearest", nearest_nm=300)
    assert torch.equal(copied[:, 0], copied[:, 3]) and torch.equal(copied[:, 2], copied[:, 4])
    assert torch.equal(copied[:, 1], filled[:, 1])
    halves = fed(missing="zero", normalization="two_sigma")
    assert (halves[:, [0, 2]] == 0.5).all()


def plan_order(plan) -> list[int]:
    return [channel.index for channel in plan.channels if channel.index is not None]
