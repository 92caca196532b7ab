"""What the policies for misfits feed: `fit: strict`, `authors`, `geobench2`."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.project import REPOSITORY
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.galileo.bands import GROUPS
from permafrost.backbones.galileo.bands import wants as galileo_wants
from permafrost.backbones.galileo.models import fed_groups
from permafrost.backbones.input.contract import InputContract, input_contract, resolve_input
from permafrost.backbones.olmoearth.bands import wants
from permafrost.backbones.olmoearth.models import OlmoEarthOptions, filling
from permafrost.backbones.torchgeo.pixels import presto_contract, presto_wrap
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer
from permafrost.operate.offers import read_offers

PRESTO, NDVI = SimpleNamespace(pixels=None), 16
ALL = tuple(one["name"] for one in sentinel2_bands())
#: each band has its own mean, so that a value in the wrong place is seen
S2 = InputContract(
    bands=ALL,
    sensor="sentinel2",
    normalization="weights",
    unit="digital_number",
    mean=tuple(float(100 * (place + 1)) for place in range(13)),
    std=tuple(float(10 * (place + 1)) for place in range(13)),
    size=None,
)
DIVIDES = dataclasses.replace(S2, mean=(0.0,), std=(1e4,))
GRAY = [band("gray", unit="uint8", scale=1 / 255)]
RADAR = [
    band(name, common_name=name.lower(), sensor="sentinel1", unit="db", scale=1.0)
    for name in ("VV", "VH")
]
SAR = dataclasses.replace(
    S2, bands=("VV", "VH"), sensor="sentinel1", unit="db", mean=(-12.0, -20.0), std=(5.0, 6.0)
)
BOTH = dataclasses.replace(
    SAR,
    bands=("VV", "B05", "B06"),
    sensor=("sentinel1", "sentinel2", "sentinel2"),
    unit=("db", "digital_number", "digital_number"),
    mean=(1.0,),
    std=(2.0,),
)
PHOTO = InputContract(normalization="weights", unit="unit_interval", mean=(0.5,), std=(0.25,))
#: level 2A has no B10
L2A = [one for one in sentinel2_bands() if one["name"] != "B10"]


def resolved(contract: InputContract, bands: list[dict], fit: str):
    return resolve_input(dataclasses.replace(contract, fit=fit), card_of(bands))


@pytest.mark.parametrize(
    ("contract", "bands", "strict", "authors", "geobench2"),
    [
        (S2, sentinel2_bands(), "exact", "exact", "rescaled"),
        (S2, L2A, None, "copied", "neutral"),
        (S2, [one for one in L2A if one["name"] != "B11"], None, "neutral", "neutral"),
        # three of thirteen are below the floor
        (S2, sentinel2_bands(("B04", "B03", "B02")), None, None, "neutral"),
        (dataclasses.replace(S2, missing="leave_out"), L2A, "subset", "subset", "rescaled"),
        (dataclasses.replace(S2, bands="rgb", mean=(1.0,), std=(2.0,)), rgb_bands(), None)
        + ("rescaled", "rescaled"),
        # what only divides has no statistics to replace
        (dataclasses.replace(DIVIDES, bands="rgb"), rgb_bands(), None, None, "rescaled"),
        # one number for all channels, as an entry writes it
        (dataclasses.replace(S2, bands="rgb", mean=0.0, std=1e4), rgb_bands(), None, None)
        + ("rescaled",),
        (dataclasses.replace(S2, bands="rgb", mean=1.0, std=2.0), rgb_bands(), None)
        + ("rescaled", "rescaled"),
        (PHOTO, GRAY, None, "picture", "picture"),
        (SAR, GRAY, None, "picture", "picture"),
        (S2, GRAY, None, None, "picture"),
        (S2, RADAR, None, None, "picture"),
        (PHOTO, RADAR, None, None, "picture"),
        (SAR, sentinel2_bands(), None, None, None),
        (SAR, RADAR[:1], None, None, None),
        # two sensors, of which one is absent
        (dataclasses.replace(BOTH, missing="error"), RADAR, None, None, None),
        (dataclasses.replace(BOTH, missing="error"), sentinel2_bands(), None, None, None),
    ],
)
def test_each_kind_of_misfit_under_each_policy(contract, bands, strict, authors, geobench2):
    for fit, wanted in (("strict", strict), ("authors", authors), ("geobench2", geobench2)):
        if wanted is None:
            with pytest.raises(PermafrostError):
                resolved(contract, bands, fit)
            continue
        plan = resolved(contract, bands, fit)
        assert plan.fit == wanted == plan.describe()["fit"], fit
        # the policy is told where it had to do something
        assert plan.describe().get("policy", "strict") == (fit if plan.done else "strict")
        assert bool(plan.done) is (plan.fit not in ("exact", "subset"))
        # why strict refuses it
        if fit == "authors":
            assert (plan.reason is None) == (strict is not None)


@pytest.mark.parametrize("fit", ["authors", "geobench2"])
def test_what_a_policy_changes_nothing_of_is_the_plan_of_strict(fit):
    own = dataclasses.replace(S2, normalization="dataset")
    range_of_train = dataclasses.replace(S2, normalization="two_sigma", mean=None, std=None)
    for contract in (S2, own, range_of_train, dataclasses.replace(S2, normalization="none")):
        strict = resolved(contract, sentinel2_bands(), "strict")
        rescaled = fit == "geobench2" and contract in (S2, range_of_train)
        assert (resolved(contract, sentinel2_bands(), fit) == strict) is not rescaled


def test_one_recipe_is_one_tensor_whatever_a_channel_is_called():
    plan = resolved(S2, sentinel2_bands(), "strict")
    renamed = dataclasses.replace(plan.channels[0], name="other")
    same = dataclasses.replace(plan, channels=(renamed, *plan.channels[1:]), reason="why")
    assert same.recipe() == plan.recipe()
    for change in ({"gain": 2.0}, {"value": 0.5}, {"index": 7}, {"wanted": "B99"}):
        moved = dataclasses.replace(plan.channels[0], **change)
        other = dataclasses.replace(plan, channels=(moved, *plan.channels[1:]))
        assert other.recipe() != plan.recipe(), change
    assert dataclasses.replace(plan, size=64).recipe() != plan.recipe()


def test_authors_copy_the_channel_that_is_fed_and_count_distinct_bands():
    kept = tuple(name for name in ALL if name not in ("B01", "B09", "B10", "B06", "B8A"))
    bands = sentinel2_bands(kept)
    plan = resolved(S2, bands, "authors")
    sources = {one.stands_for: one.name for one in plan.channels if one.stands_for}
    assert sources == {"B01": "B02", "B06": "B05", "B8A": "B08", "B10": "B11"} | {"B09": "B08"} or (
        "B09" not in sources
    )
    assert (plan.bands_real, plan.bands_wanted) == (8, 13)
    stored = torch.from_numpy(
        np.random.default_rng(0).normal(1000, 300, (2, len(kept), 4, 4)).astype(np.float32)
    )
    read = [one.index for one in plan.channels if one.index is not None]
    fed = dict(
        zip(ALL, Preparer(plan, torch.device("cpu"))(stored[:, read]).unbind(1), strict=True)
    )
    for copy, source in sources.items():
        assert torch.equal(fed[copy], fed[source])
    for place, name in enumerate(ALL):
        if name in kept:
            want = (stored[:, kept.index(name)] - S2.mean[place]) / S2.std[place]
            assert torch.allclose(fed[name], want, atol=1e-4)


def test_absent_bands_are_neutral_after_geobench2_and_nothing_is_copied():
    bands = sentinel2_bands(("B04", "B03", "B02"))
    plan = resolved(S2, bands, "geobench2")
    absent = [one for one in plan.channels if one.index is None]
    assert len(absent) == 10 and all(one.value == 0 for one in absent)
    assert plan.normalization == "dataset" and plan.bands_real == 3
    red = plan.channels[ALL.index("B04")]
    assert (red.center, red.gain) == (bands[0]["mean"], 1 / bands[0]["std"])


def test_a_model_that_goes_without_bands_is_fed_the_picture_alone():
    plan = resolved(dataclasses.replace(S2, missing="leave_out"), RADAR, "geobench2")
    # the order of Sentinel-2's bands: blue, green, red
    assert [(one.wanted, one.name) for one in plan.channels] == [
        ("B02", "VV"),
        ("B03", "VH"),
        ("B04", "VV"),
    ]
    assert (plan.fit, plan.bands_real, plan.bands_wanted) == ("picture", 2, 13)


def test_two_sigma_keeps_its_form_for_pictures():
    contract = dataclasses.replace(
        S2, bands="rgb", normalization="two_sigma", clip=True, mean=(1.0,), std=(2.0,)
    )
    plan = resolved(contract, rgb_bands(), "authors")
    assert (plan.normalization, plan.clip, plan.fit) == ("two_sigma", True, "rescaled")


def test_thermal_is_never_a_copy_of_optical_and_an_entry_gives_no_policy():
    contract = InputContract(bands=("B4", "B3", "B2", "B10"), sensor="landsat8")
    bands = sentinel2_bands(("B04", "B03", "B02", "B11"))
    plan = resolved(contract, bands, "authors")
    assert plan.channels[3].index is None and plan.fit == "neutral"
    with pytest.raises(PermafrostError, match="unknown key 'fit'"):
        input_contract({}, {"fit": "authors"}, {}, where="x")


def test_a_misspelt_band_is_no_misfit():
    contract = dataclasses.replace(
        S2, bands=("B04", "B03", "B99"), sensor=None, mean=(1.0,), std=(1.0,)
    )
    for fit in ("authors", "geobench2"):
        with pytest.raises(PermafrostError, match="B99"):
            resolved(contract, sentinel2_bands(), fit)


def test_a_band_without_a_wavelength_is_not_a_copy():
    bands = [dict(one) for one in L2A]
    for one in bands:
        one["wavelength_nm"] = None if one["name"] == "B11" else one["wavelength_nm"]
    plan = resolved(S2, bands, "authors")
    cirrus = plan.channels[ALL.index("B10")]
    assert (cirrus.index, cirrus.value, plan.fit) == (None, 0.0, "neutral")


@pytest.mark.parametrize(
    ("fit", "missing", "bands", "masked"),
    [
        ("strict", "leave_out", ("B02", "B03", "B04", "B08"), 0.0),
        ("geobench2", "leave_out", ("B02", "B03", "B04", "B08"), 1.0),
        ("strict", "zero", ("B02", "B03", "B04"), 1.0),
    ],
)
def test_presto_has_an_ndvi_of_reflectance_alone(fit, missing, bands, masked):
    contract = dataclasses.replace(InputContract(), **presto_contract(None) | {"missing": missing})
    plan = resolved(contract, sentinel2_bands(bands), fit)
    model = presto_wrap(SimpleNamespace(encoder=torch.nn.Identity()), plan, PRESTO, "x")["module"]
    fed = {"B4": 0.2, "B8": 0.4}
    pixels = torch.tensor([[[fed.get(one.wanted, 0.1) for one in plan.channels]]])
    values, mask = model.inputs(pixels)
    ndvi = values[0, 0, NDVI], mask[0, 0, NDVI]
    assert ndvi == (pytest.approx((0.4 - 0.2) / 0.6 if not masked else 0.0), masked)


def test_galileo_has_no_ndvi_of_a_neutral_value():
    groups = [name for name in GROUPS if name != "S1"]
    contract = InputContract(**{**galileo_wants(groups), "missing": "zero"})
    for bands, there in ((L2A, True), (sentinel2_bands(("B02", "B03", "B04")), False)):
        fed = fed_groups(resolved(contract, bands, "strict"), groups, "x")
        assert ("NDVI" in fed) is there and "S2_SWIR" in fed


def test_olmoearth_copies_values_of_the_train_splits_statistics_as_they_are():
    contract = dataclasses.replace(InputContract(), **wants(["sentinel2_l2a"]))
    options = OlmoEarthOptions(
        model="nano", version="v1", modalities=["sentinel2_l2a"], patch_size=4, weights=None
    )
    for bands, changed in ((rgb_bands(white=0.3558), True), (rgb_bands(), False)):
        plan = resolved(contract, [dict(one, wavelength_nm=None) for one in bands], "authors")
        source = filling(plan, options, "x")["sentinel2_l2a"]["B01"]
        assert (source.name, (source.factor, source.shift) != (1.0, 0.0)) == ("B02", changed)


@pytest.mark.parametrize(
    ("contract", "bands", "fit", "reason"),
    [
        (
            S2,
            sentinel2_bands(("B04", "B03", "B02")),
            "authors",
            "3 of 13 wanted bands are there, and 50%",
        ),
        (
            SAR,
            sentinel2_bands(),
            "geobench2",
            "only bands of a known wavelength are filled, not VV, VH",
        ),
        (S2, [one for one in RADAR if one["name"] == "VV"], "geobench2", "0 of 13 wanted bands"),
    ],
)
def test_a_misfit_says_what_was_refused_first_and_why_the_policy_does_not_help(
    contract, bands, fit, reason
):
    with pytest.raises(PermafrostError, match="has no band") as caught:
        resolved(contract, bands, fit)
    assert f"fit: {fit} does not help: {reason}" in caught.value.problem


def test_brightness_of_no_known_reflectance_is_a_picture_whatever_its_numbers():
    bands = [dict(one, unit="brightness", scale=1.0) for one in rgb_bands()]
    contract = dataclasses.replace(S2, bands="rgb", mean=(1.0,), std=(2.0,))
    with pytest.raises(PermafrostError, match="brightness of no known reflectance"):
        resolved(contract, bands, "strict")
    assert resolved(contract, bands, "authors").fit == "rescaled"
    stated = [dict(one, white=0.5) for one in bands]
    assert resolved(contract, stated, "strict").fit == "exact"
    photo = resolved(PHOTO, bands, "strict")
    # (value - 0.5) / 0.25 of values in [0, 1]
    assert (photo.fit, photo.channels[0].center, photo.channels[0].gain) == ("exact", 0.5, 4.0)
    assert resolved(PHOTO, bands[:1], "authors").fit == "picture"


@pytest.mark.parametrize(
    "name",
    [
        "m-chesapeake",
        "m-sa-crop-type",
        "geobench2-spacenet2",
        "geobench2-spacenet6-rgbn",
        "ucmerced",
    ],
)
def test_entries_without_a_known_scale_are_pictures(name):
    offers = read_offers(REPOSITORY)
    assert offers.datasets.entry(name)["units"]["unit"] == "brightness"


def test_white_is_a_statement_about_pictures_and_is_assumed_by_authors_alone_where_weights_divide():
    divides = InputContract(
        normalization="weights", unit="reflectance", mean=(0.0,), std=(1.0,), white=0.3558
    )
    for fit in ("strict", "authors", "geobench2"):
        stated = resolved(divides, rgb_bands(white=0.275), fit)
        if fit == "geobench2":
            # which feeds z-scores in every pair
            assert stated.fit == "rescaled"
        else:
            assert stated.fit == "exact"
            assert [one.gain for one in stated.channels] == pytest.approx([0.275 / 255] * 3)
    with pytest.raises(PermafrostError, match="holds 8-bit brightness") as caught:
        resolved(divides, rgb_bands(), "strict")
    assert "`white` under the dataset's units" in caught.value.remedy
    assumed = resolved(divides, rgb_bands(), "authors")
    assert (assumed.fit, assumed.policy) == ("assumed", "authors")
    assert assumed.channels[0].gain == pytest.approx(0.3558 / 255)
    without = dataclasses.replace(divides, white=None)
    with pytest.raises(PermafrostError, match="holds 8-bit brightness"):
        resolved(without, rgb_bands(), "authors")
    # weights that subtract a mean have statistics to stand for
    zscored = dataclasses.replace(divides, mean=(0.1,), std=(0.05,))
    assert resolved(zscored, rgb_bands(), "authors").fit == "rescaled"


def test_weights_that_divide_reflectance_and_shift_decibels_only_divide():
    # as Presto's: (dB + 25) / 25, and reflectance
    contract = InputContract(
        bands=("B4", "VV"),
        sensor=("sentinel2", "sentinel1"),
        normalization="weights",
        unit=("digital_number", "db"),
        mean=(0.0, -25.0),
        std=(10000.0, 25.0),
        missing="leave_out",
        white=0.3558,
    )
    plan = resolved(contract, rgb_bands(), "authors")
    assert (plan.fit, plan.channels[0].gain) == ("assumed", pytest.approx(0.3558 / 255))
