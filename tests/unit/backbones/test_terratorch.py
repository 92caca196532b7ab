"""What TerraTorch's backbones want to be fed, which is known without TerraTorch."""

from __future__ import annotations

import pytest
from helpers.backbones import validated
from helpers.stores.images import card_of, sentinel2_bands
from permafrost.backbones.input.contract import input_contract, resolve_input
from permafrost.backbones.terratorch.families import (
    chosen_modalities,
    family_of,
    fed_bands,
    wanted,
)
from permafrost.core.errors import PermafrostError

BANDS = sentinel2_bands(("B02", "B03", "B04", "B8A"))


def planned(model: str, card=None, **entry):
    entry = validated({"kind": "terratorch", "model": model, "weights": None, **entry})
    contract = input_contract(wanted(entry, "x"), entry["input"], {"size": 64}, where="x")
    family = family_of(model, "x")
    chosen = chosen_modalities(family, entry.get("modalities"), "x")
    return family, chosen, resolve_input(contract, card or card_of(BANDS), where="x")


def test_absent_bands_are_left_out_by_name():
    family, chosen, plan = planned("terramind_v1_tiny", modalities=["S2L2A", "S1RTC"])
    assert plan.names == ["B02", "B03", "B04", "B8A"]
    assert plan.size == 224
    assert fed_bands(family, chosen, plan, "x") == {
        "S2L2A": {"B02": 0, "B03": 1, "B04": 2, "B8A": 3}
    }


def test_prithvi_is_fed_its_statistics_of_the_bands_that_there_are():
    *_, plan = planned("prithvi_eo_v2_300_tl")
    assert [channel.wanted for channel in plan.channels] == ["blue", "green", "red", "nir08"]
    assert plan.normalization == "weights"
    # digital numbers: mean 1087 of blue, 2734 of narrow near infrared
    ratio = plan.channels[3].center / plan.channels[0].center
    assert ratio == pytest.approx(2734 / 1087)


def test_zeros_for_absent_bands_are_refused():
    family, chosen, plan = planned("terramind_v1_tiny", input={"missing": "zero"})
    with pytest.raises(PermafrostError, match="no zero filling for it"):
        fed_bands(family, chosen, plan, "x")


@pytest.mark.parametrize(
    ("model", "modalities", "message"),
    [
        ("terramind_v1_tiny", ["S2L2B"], "no modality 'S2L2B'"),
        ("terramind_v1_tiny", {"S2L2A": ["B99"]}, "no band 'B99'"),
        ("terramind_v1_tiny", ["S1GRD", "S1RTC"], "two processing levels"),
        ("clay_v1_5", ["naip", "linz"], "one sensor"),
    ],
)
def test_modalities_that_cannot_be_are_refused(model, modalities, message):
    with pytest.raises(PermafrostError, match=message):
        chosen_modalities(family_of(model, "x"), modalities, "x")


@pytest.mark.parametrize("model", ["terramind_v1_base_tim", "dinov3_vitb16", "UNet", "prithvi_v9"])
def test_models_without_features_and_unknown_ones_are_refused(model):
    with pytest.raises(PermafrostError):
        family_of(model, "x")


@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("satlas_swin_b_naip_si_rgb", "Swin_V2_B_Weights.NAIP_RGB_SI_SATLAS"),
        ("ssl4eos12_resnet50_sentinel1_all_decur", "ResNet50_Weights.SENTINEL1_ALL_DECUR"),
    ],
)
def test_models_from_torchgeo_are_fed_what_its_weights_say(model, weights):
    assert family_of(model, "x").weights == weights
