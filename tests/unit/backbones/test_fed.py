"""What is fed, by the card: mean and deviation of each channel, and which are unusual."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.input.contract import InputContract, resolve_input
from permafrost.backbones.input.fed import channels_as_fed, listed, unusual_channels
from permafrost.features.prepare import Preparer

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
S2 = ("B04", "B03", "B02")


def planned(stored, **wanted):
    wanted = {"normalization": "weights", "bands": "all", "unit": "unit_interval", **wanted}
    return resolve_input(InputContract(**wanted), card_of(stored))


def unusual(stored, kind="timm", **wanted) -> list[str]:
    plan = planned(stored, **wanted)
    return [one.name for one in unusual_channels(plan, kind, stored, channels_as_fed(plan, stored))]


def reflectance(mean: float, std: float, names=S2) -> list[dict]:
    """Sentinel-2 in digital numbers, of this reflectance."""
    return [one | {"mean": 1e4 * mean, "std": 1e4 * std} for one in sentinel2_bands(names)]


def pictures(mean: float, std: float) -> list[dict]:
    return [one | {"mean": 255 * mean, "std": 255 * std} for one in rgb_bands()]


def test_mean_and_deviation_are_those_of_the_tensor():
    pixels = np.random.default_rng(0).gamma(4, 300, (5, 3, 32, 32)).astype(np.float32)
    mean, std = pixels.mean((0, 2, 3), np.float64), pixels.std((0, 2, 3), dtype=np.float64)
    bands = [
        one | {"mean": m, "std": s, "offset": -0.1}
        for one, m, s in zip(sentinel2_bands(S2), mean, std, strict=True)
    ]
    plan = planned(
        bands, unit="digital_number", mean=(800, 900, 1000), std=(500, 600, 700), size=None
    )
    tensor = Preparer(plan, torch.device("cpu"))(torch.from_numpy(pixels)).double()
    fed = channels_as_fed(plan, bands)
    assert [one.mean for one in fed] == pytest.approx(tensor.mean((0, 2, 3)).tolist(), abs=1e-5)
    assert [one.std for one in fed] == pytest.approx(
        tensor.std((0, 2, 3), correction=0).tolist(), rel=1e-5
    )


def test_land_with_statistics_of_photographs_is_unusual_and_with_its_own_it_is_not():
    land = reflectance(0.1, 0.06)
    assert unusual(land, **IMAGENET) == list(S2)
    assert unusual(land, white=0.3558, **IMAGENET) == []
    assert unusual(land, mean=(0.12,), std=(0.09,)) == []
    assert unusual(land, normalization="dataset") == []
    assert unusual(pictures(0.4, 0.15), **IMAGENET) == []


@pytest.mark.parametrize(
    ("mean", "std", "strange"),
    [
        (0.99, 0.9, False),
        (1.01, 0.9, True),
        (-1.01, 0.9, True),
        (0, 0.31, False),
        (0, 0.29, True),
        (0, 11, True),
    ],
)
def test_the_limits(mean, std, strange):
    bands = reflectance(0.5 + 0.1 * mean, 0.1 * std)
    assert unusual(bands, mean=(0.5,), std=(0.1,)) == (list(S2) if strange else [])


def test_one_channel_among_others_is_named():
    bands = [*reflectance(0.1, 0.06, S2[:2]), *reflectance(0.4, 0.06, S2[2:])]
    assert unusual(bands, mean=(0.12,), std=(0.09,)) == ["B02"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"unit": "digital_number", "mean": (0,), "std": (1e4,)},
        {"normalization": "minmax"},
        {"normalization": "percentile"},
        {"normalization": "two_sigma"},
    ],
)
def test_what_is_divided_into_an_interval_may_have_a_small_deviation(wanted):
    bands = [
        one | {"min": 0.0, "max": 6000.0, "p2": 200.0, "p98": 3000.0}
        for one in reflectance(0.1, 0.06)
    ]
    assert unusual(bands, **wanted) == []


def test_radar_beside_bands_that_are_divided_is_divided_too():
    bands = [*reflectance(0.1, 0.06, S2[:1]), band("VV", unit="db", scale=1.0, mean=-12.0, std=5.0)]
    presto = {"unit": ("digital_number", "db"), "mean": (0, -25), "std": (1e4, 25)}
    assert unusual(bands, **presto) == []


def test_from_minus_one_to_one_photographs_are_usual_and_land_without_white_is_not():
    half = {"mean": (0.5,), "std": (0.5,)}
    assert unusual(pictures(0.4, 0.115), **half) == []
    assert unusual(reflectance(0.1, 0.06), **half) == list(S2)
    # an offset of the dataset does not hide it
    shifted = [one | {"offset": -0.1, "mean": 2000.0} for one in reflectance(0.1, 0.06)]
    assert unusual(shifted, **half) == list(S2)


def test_values_far_above_an_interval_are_unusual():
    assert unusual(
        [one | {"scale": 1.0} for one in reflectance(0.1, 0.06)], mean=(0,), std=(1,)
    ) == list(S2)


def test_stored_values_are_usual_for_baselines_alone():
    land = reflectance(0.1, 0.06)
    assert unusual(land, "imagestats", normalization="none") == []
    assert unusual(land, "entrypoint", normalization="none") == []
    assert unusual(land, "timm", normalization="none") == list(S2)
    assert unusual(land, "imagestats", **IMAGENET) == list(S2)


def test_zeros_that_are_declared_are_not_looked_at():
    wanted = {"bands": ("B04", "B10"), "sensor": "sentinel2", "missing": "zero"}
    bands = reflectance(0.1, 0.06, ("B04",))
    assert unusual(bands, mean=(0.1,), std=(0.06,), **wanted) == []
    plan = planned(bands, mean=(0.1,), std=(0.06,), **wanted)
    assert [tuple(one) for one in channels_as_fed(plan, bands)][1] == ("B10", 0.0, 0.0)


def test_decibels_have_no_deviation_of_zero():
    radar = [band(name, unit="db", scale=1.0, mean=-12.0, std=5.0) for name in ("VV", "VH")]
    assert unusual(radar, unit="db", mean=(-12.59, -20.26), std=(5.26, 5.91)) == ["VH"]


def test_power_in_decibels_has_mean_and_deviation_of_its_percentiles():
    decibels = np.random.default_rng(0).normal(-13, 5, 20_000)
    power = 10 ** (decibels / 10)
    known = {"mean": power.mean(), "std": power.std()}
    known |= dict(zip(("p2", "p98"), np.percentile(power, (2, 98)), strict=True))
    radar = [band("VV", unit="linear_power", scale=1.0, **known)]
    plan = planned(radar, unit="db", mean=(-12.0,), std=(5.0,))
    (fed,) = channels_as_fed(plan, radar)
    assert fed.mean == pytest.approx((decibels.mean() + 12) / 5, abs=0.05)
    assert fed.std == pytest.approx(decibels.std() / 5, rel=0.05)
    assert unusual(radar, unit="db", mean=(-12.0,), std=(5.0,)) == []
    assert unusual(radar, unit="db", mean=(-25.0,), std=(5.0,)) == ["VV"]


def test_of_many_channels_the_first_are_listed():
    bands = reflectance(0.1, 0.06, tuple(one["name"] for one in sentinel2_bands())[:5])
    plan = planned(bands, mean=(0.5,), std=(0.2,))
    assert (
        listed(channels_as_fed(plan, bands))
        == "B01 -2 ± 0.3, B02 -2 ± 0.3, B03 -2 ± 0.3 and 2 more"
    )
