"""torchgeo's models and weights against torchgeo used by hand. Nothing is downloaded."""

from __future__ import annotations

import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.torchgeo.models import TorchgeoOptions
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer

torchgeo_models = pytest.importorskip("torchgeo.models")

S2_RGB = "ResNet18_Weights.SENTINEL2_RGB_MOCO"


def made(entry: dict, bands=None):
    card = card_of(sentinel2_bands() if bands is None else bands)
    entry = {"kind": "torchgeo", **entry}
    plan = plan_input(entry, {"size": 224}, card, where="backbone x")
    return build(entry, plan, Resources("backbone x", card, 0, None))


def planned(entry: dict, bands=None):
    card = card_of(sentinel2_bands() if bands is None else bands)
    return plan_input({"kind": "torchgeo", **entry}, {"size": 224}, card, where="backbone x")


@pytest.mark.parametrize(
    "name",
    [
        "ResNet50_Weights.SENTINEL2_ALL_MOCO",
        "ResNet50_Weights.SENTINEL2_ALL_SOFTCON",
        "ResNet50_Weights.SENTINEL2_RGB_SECO",
        "ViTSmall16_Weights.SENTINEL2_ALL_CLOSP",
        "EarthLoc_Weights.SENTINEL2_RESNET50",
        S2_RGB,
    ],
)
@pytest.mark.parametrize("side", [64, 400])
def test_the_tensor_fed_is_that_of_the_weights_own_transforms(name, side):
    from torchgeo.models import get_weight

    weights = get_weight(name)
    plan = planned({"weights": name})
    stored = torch.randint(0, 9000, (2, 13, side, side), dtype=torch.int32)
    ours = Preparer(plan, torch.device("cpu"))(stored[:, [c.index for c in plan.channels]])
    positions = [[b["name"] for b in sentinel2_bands()].index(n) for n in plan.names]
    wanted = stored[:, positions].float()
    if weights.transforms[0].__class__.__name__ == "Normalize" and name.startswith("EarthLoc"):
        wanted = wanted * 255e-4  # it wants 8-bit values, the dataset has reflectance * 10,000
    if name.endswith("SECO"):
        wanted = wanted * 255e-4
    expected = weights.transforms(wanted.clone())
    torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_bands_are_those_of_the_weights_in_their_order():
    assert planned({"weights": S2_RGB}).names == ["B04", "B03", "B02"]
    assert planned({"weights": "ResNet50_Weights.SENTINEL2_MI_MS_SATLAS"}).names == (
        ["B04", "B03", "B02", "B05", "B06", "B07", "B08", "B11", "B12"]
    )
    assert planned({"model": "croma_base", "weights": None}).names == [
        b["name"] for b in sentinel2_bands() if b["name"] != "B10"
    ]


DEO = {"weights": "DEO_Weights.DEO_SWIN"}
# DEO/utils/augmentations.py of wolfilip/DEO-FM: red, green and blue of Sentinel-2, and of pictures in [0, 1]
DEO_SENTINEL2 = (
    (1136.26026392, 965.23119807),
    (1120.77120066, 712.12507725),
    (1184.3824625, 650.2842772),
)
DEO_PICTURES = ((0.4182007, 0.2877428), (0.4214799, 0.2754177), (0.3991276, 0.2764018))


@pytest.mark.parametrize(("unit", "scale"), [("digital_number", 1e-4), ("reflectance", 1.0)])
def test_deo_is_fed_sentinel_2_by_its_authors_table_for_sentinel_2(unit, scale):
    bands = [{**one, "unit": unit, "scale": scale} for one in sentinel2_bands()]
    channels = planned(DEO, bands).channels
    for channel, (mean, std) in zip(channels[:3], DEO_SENTINEL2, strict=True):
        assert channel.center == pytest.approx(mean * 1e-4 / scale)
        assert 1 / channel.gain == pytest.approx(std * 1e-4 / scale)
    # the other seven stand in both tables
    assert channels[3].center == pytest.approx(1263.73947144 * 1e-4 / scale)


def test_deo_is_fed_pictures_by_its_authors_table_for_pictures():
    aerial = [
        *rgb_bands(),
        *(b for b in sentinel2_bands() if b["name"] not in ("B02", "B03", "B04")),
    ]
    channels = planned(DEO, aerial).channels
    assert [c.name for c in channels[:4]] == ["red", "green", "blue", "B05"]
    for channel, (mean, std) in zip(channels[:3], DEO_PICTURES, strict=True):
        assert channel.center == pytest.approx(255 * mean, rel=1e-5)
        assert 1 / channel.gain == pytest.approx(255 * std, rel=1e-5)
    assert channels[3].center == pytest.approx(1263.73947144)
    own = planned({**DEO, "input": {"mean": [0.5], "std": [0.25], "unit": "unit_interval"}}, aerial)
    assert own.channels[0].center == pytest.approx(127.5)


def test_no_weights_of_torchgeo_mix_units_of_one_sensor_unnoticed():
    """Means in two units are the sign of a second table: the rest must be plain divisions."""
    from permafrost.backbones.torchgeo.families import FAMILIES
    from permafrost.backbones.torchgeo.weights import contract_of
    from torchgeo.models.api import _model_weights

    seen = 0
    for model, group in _model_weights.items():
        for weights in group if model in FAMILIES and not FAMILIES[model].contract else ():
            contract = contract_of(weights, "x")
            units, means = contract.get("unit"), contract.get("mean", ())
            seen += 1
            assert not isinstance(units, tuple) or len(set(units)) < 2 or not any(means), weights
    assert seen > 90


def test_a_normalisation_of_the_entry_takes_the_place_of_the_weights_own():
    plan = planned({"weights": S2_RGB, "input": {"normalization": "dataset"}})
    assert [channel.center for channel in plan.channels] == [100.0] * 3


def test_eight_bit_pictures_need_a_declaration_to_be_fed_to_weights_for_reflectance():
    with pytest.raises(PermafrostError, match="8-bit brightness"):
        planned({"weights": S2_RGB}, rgb_bands())
    # that of the weights is no statement about these pictures
    with pytest.raises(PermafrostError, match="8-bit brightness.*state `white`"):
        planned({"weights": S2_RGB, "input": {"white": 0.3558}}, rgb_bands())
    plan = planned({"weights": S2_RGB, "input": {"white": 0.3558}}, rgb_bands(white=0.275))
    assert (255 - plan.channels[0].center) * plan.channels[0].gain == pytest.approx(0.275)


def test_every_entry_of_the_catalogue_is_understood():
    """Each finds its weights and its unit, on Sentinel-2, radar, Landsat or pictures."""
    from helpers.project import REPOSITORY
    from helpers.stores.images import band
    from permafrost.plan.catalogue import read_yaml

    radar = [
        band(n, common_name=n.lower(), sensor="sentinel1", unit="db", scale=1.0)
        for n in ("VV", "VH")
    ]
    landsat = [band(f"B{i}", unit="reflectance", scale=1.0) for i in range(1, 12)]
    etm = [
        band(n, unit="reflectance", scale=1.0)
        for n in ["B1", "B2", "B3", "B4", "B5", "B6_VCID_1", "B6_VCID_2", "B7", "B8"]
    ]
    radar_8_bit = [{**one, "unit": "uint8", "scale": 1 / 255} for one in radar]
    ndvi = band("NDVI", unit="digital_number", scale=1e-4)
    naip = [*rgb_bands(), band("nir", common_name="nir", unit="uint8", scale=1 / 255)]
    for name, entry in read_yaml(REPOSITORY / "config" / "backbones" / "torchgeo.yaml").items():
        both = [*sentinel2_bands(), *radar]
        for bands in (both[:-2], radar, landsat, etm, naip, both, [*both, ndvi], radar_8_bit):
            try:
                planned({k: v for k, v in entry.items() if k != "title"}, bands)
                break
            except PermafrostError as error:
                lacking = ("no band", "constant", "weights want uint8, but the band VH holds db")
                assert any(one in str(error) for one in lacking), f"{name}: {error}"
        else:
            raise AssertionError(f"{name} can be fed no dataset")


@pytest.mark.parametrize(
    ("name", "arguments", "side", "width"),
    [
        ("resnet18", {"num_classes": 0, "in_chans": 3}, 224, 512),
        ("vit_small_patch16_224", {"num_classes": 0, "in_chans": 3}, 224, 384),
        ("swin_v2_t", {}, 224, 768),
    ],
)
def test_untrained_models_are_torchgeos(name, arguments, side, width):
    backbone = made({"model": name, "weights": None, "seed": 4})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        theirs = getattr(torchgeo_models, name)(**arguments).eval()
    if name.startswith("swin"):
        theirs.head = torch.nn.Identity()
    pixels = torch.randn(1, 3, side, side)
    with torch.inference_mode():
        assert torch.equal(backbone.features(pixels), theirs(pixels))
        assert backbone.features(pixels).shape == (1, width)


TINY = {"embed_dim": 32, "depth": 1, "num_heads": 2}


@pytest.fixture
def small_models(monkeypatch):
    """The wavelength-conditioned models with few layers: the way they are called stays the same."""
    from torchgeo.models import CROMA, DOFA, CopernicusFM

    monkeypatch.setattr(torchgeo_models, "dofa_base_patch16_224", lambda **k: DOFA(**{**k, **TINY}))
    monkeypatch.setattr(
        torchgeo_models, "copernicusfm_base", lambda **k: CopernicusFM(**{**k, **TINY})
    )
    small = {"encoder_dim": 32, "encoder_depth": 1}
    monkeypatch.setattr(torchgeo_models, "croma_base", lambda **k: CROMA(**{**k, **small}))


def inner_features(backbone, pixels):
    with torch.inference_mode():
        return backbone.features(pixels)


def test_dofa_is_told_the_datasets_wavelengths_in_micrometres(small_models):
    backbone = made(
        {"model": "dofa_base_patch16_224", "weights": None, "input": {"bands": ["B08", "B02"]}}
    )
    pixels = torch.randn(2, 2, 224, 224)
    with torch.inference_mode():
        expected = backbone.module.model(pixels, [0.8328, 0.4924])
        other = backbone.module.model(pixels, [0.4924, 0.8328])
    torch.testing.assert_close(inner_features(backbone, pixels), expected)
    assert not torch.allclose(expected, other)


def test_copernicusfm_is_told_wavelengths_and_bandwidths_in_nanometres(small_models):
    backbone = made(
        {"model": "copernicusfm_base", "weights": None, "input": {"bands": ["B08", "B02"]}}
    )
    pixels = torch.randn(2, 2, 224, 224)
    with torch.inference_mode():
        expected = backbone.module.model(
            pixels,
            torch.full((2, 4), float("nan")),
            wavelengths=[832.8, 492.4],
            bandwidths=[115, 65],
            kernel_size=16,
        )
    torch.testing.assert_close(inner_features(backbone, pixels), expected)


def test_croma_takes_the_path_of_sentinel_2(small_models):
    backbone = made({"model": "croma_base", "weights": None})
    pixels = torch.randn(2, 12, 120, 120)
    with torch.inference_mode():
        expected = backbone.module.model(x_optical=pixels)["optical_GAP"]
    assert backbone.plan.side == 120
    torch.testing.assert_close(inner_features(backbone, pixels), expected)


@pytest.mark.parametrize("model", ["dofa_base_patch16_224", "copernicusfm_base"])
def test_bands_without_a_wavelength_are_an_error(small_models, model):
    with pytest.raises(PermafrostError, match="has none for red, green, blue"):
        made({"model": model, "weights": None, "input": {"bands": "rgb"}}, rgb_bands())


def test_an_absent_band_is_named_by_its_wavelength_where_the_model_needs_that(small_models):
    entry = {"model": "dofa_base_patch16_224", "weights": None}
    bands = sentinel2_bands(("B02", "B03", "B04"))
    with pytest.raises(PermafrostError, match=r"lacks, have none by their name: nir.*nanometres"):
        made({**entry, "input": {"bands": ["red", "nir"], "missing": "zero"}}, bands)
    backbone = made({**entry, "input": {"bands": ["red", 842], "missing": "zero"}}, bands)
    assert backbone.notes["wavelengths_um"] == pytest.approx([0.6646, 0.842])


def test_panopticon_is_told_wavelengths_in_nanometres_and_radar_by_number(monkeypatch):
    from helpers.stores.images import band
    from permafrost.backbones.torchgeo.families import _panopticon_wrap

    class Recorder(torch.nn.Module):
        num_prefix_tokens = 1

        def forward(self, given):
            self.given = {key: value.clone() for key, value in given.items()}
            given["chn_ids"] *= 0
            return given["imgs"].mean(dim=(2, 3))

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Recorder()

    radar = band("VV", common_name="vv", sensor="sentinel1", unit="db", scale=1.0)
    plan = planned(
        {"model": "panopticon_vitb14", "weights": None, "input": {"bands": "all"}},
        [*sentinel2_bands(("B02", "B08")), radar],
    )
    model = Outer()
    called = _panopticon_wrap(model, plan, TorchgeoOptions(weights=None), "x")["module"]
    for _ in range(2):
        called(torch.randn(2, 3, 28, 28))
        assert model.model.given["chn_ids"].tolist() == [pytest.approx([492.4, 832.8, -1.0])] * 2


def test_weights_from_a_file_are_those_of_the_named_kind(tmp_path):
    from torchgeo.models import resnet18

    model = resnet18(num_classes=0, in_chans=3)
    torch.save(model.state_dict(), tmp_path / "moco.pth")
    weights = {"source": "file", "path": str(tmp_path / "moco.pth"), "like": S2_RGB}
    backbone = made({"weights": weights})
    assert torch.equal(backbone.module.conv1.weight, model.conv1.weight)
    assert backbone.plan.normalization == "weights"
    assert (backbone.plan.size, backbone.plan.crop) == (256, 224)


def test_a_file_of_other_weights_is_refused(tmp_path):
    torch.save({"conv1.weight": torch.zeros(3)}, tmp_path / "other.pth")
    weights = {"source": "file", "path": str(tmp_path / "other.pth"), "like": S2_RGB}
    with pytest.raises(PermafrostError, match=r"backbone x.*resnet18"):
        made({"weights": weights})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"weights": "ResNet50_Weights.SENTINEL2_RGB_MOC"},
            "did you mean 'ResNet50_Weights.SENTINEL2_RGB_MOCO'",
        ),
        ({"model": "resnet5", "weights": None}, "did you mean 'resnet50'"),
        ({"model": "aurora_swin_unet", "weights": None}, "forecasts weather"),
        ({"weights": None}, "needs the key 'model'"),
        (
            {"model": "resnet18", "weights": "ResNet50_Weights.SENTINEL2_RGB_MOCO"},
            "are for resnet50",
        ),
        (
            {"weights": "ResNet18_Weights.SENTINEL2_ALL_MOCO", "input": {"bands": "rgb"}},
            "13 channels, 3 are fed",
        ),
    ],
)
def test_entries_that_make_no_sense_are_errors(entry, message):
    with pytest.raises(PermafrostError, match=message):
        made(entry)
