"""torchgeo's models that take radar, place, date or ground distance, against torchgeo's own code called directly."""

from __future__ import annotations

import datetime

import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import band, card_of, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.input.contract import wavelengths_nm
from permafrost.backbones.torchgeo.inputs import PANOPTICON_RADAR
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer

torchgeo_models = pytest.importorskip("torchgeo.models")

TINY = {"embed_dim": 32, "depth": 2, "num_heads": 2}


def radar(*names: str, **fields) -> list[dict]:
    shared = {"sensor": "sentinel1-grd", "unit": "db", "scale": 1.0, **fields}
    return [band(name, common_name=name.lower(), **shared) for name in names]


def made(entry: dict, bands: list[dict]):
    card, entry = card_of(bands), {"kind": "torchgeo", "weights": None, **entry}
    plan = plan_input(entry, {"size": 224}, card)
    return build(entry, plan, Resources("backbone x", card, 0, None))


@pytest.fixture
def small_models(monkeypatch):
    from torchgeo.models import CROMA, CopernicusFM
    from torchgeo.models.scale_mae import ScaleMAE

    small = {
        "copernicusfm_base": lambda **k: CopernicusFM(**{**k, **TINY}),
        "croma_base": lambda **k: CROMA(**{**k, "encoder_dim": 32, "encoder_depth": 8}),
        "scalemae_large_patch16": lambda **k: ScaleMAE(**{**k, **TINY, "patch_size": 16}),
    }
    for name, function in small.items():
        monkeypatch.setattr(torchgeo_models, name, function)


@torch.inference_mode()
def test_copernicusfm_is_told_place_days_and_the_area_of_a_patch(small_models):
    backbone = made({"model": "copernicusfm_base", "input": {"bands": "all"}}, radar("VV", "VH"))
    torch.manual_seed(0)
    for parameter in backbone.module.parameters():
        parameter.normal_(std=0.05)
    pixels = torch.randn(3, 2, 64, 64)
    days = [datetime.date(2020, 2, 29), datetime.date(1999, 12, 31), datetime.date(2017, 7, 1)]
    told = {
        "place": torch.tensor([[-120.5, 45.0], [7.25, -46.5], [179.0, 0.0]]),
        "dates": torch.tensor([[day.year, day.timetuple().tm_yday] for day in days]),
        "ground_distance_m": torch.tensor([10.0, 20.0, 5.0]),
    }
    since = torch.tensor([float((day - datetime.date(1970, 1, 1)).days) for day in days])
    areas = torch.tensor([0.0256, 0.1024, 0.0064])
    metadata = torch.cat([told["place"], since[:, None], areas[:, None]], dim=1)
    unknown = torch.full((3, 4), float("nan"))
    how = {"wavelengths": [5e7, 5e7], "bandwidths": [1e9, 1e9], "kernel_size": 16}
    expected, without = (backbone.module.model(pixels, one, **how) for one in (metadata, unknown))
    torch.testing.assert_close(backbone.features_and_maps(pixels, **told)[0], expected)
    torch.testing.assert_close(backbone.features(pixels), without)
    assert not torch.allclose(expected, without, rtol=1e-3)


@torch.inference_mode()
def test_scalemae_places_its_patches_by_the_ground_distance_of_each_image(small_models):
    entry = {
        "model": "scalemae_large_patch16",
        "input": {"bands": ["B04", "B03", "B02"], "size": 64},
    }
    backbone = made(entry, sentinel2_bands())
    pixels = torch.randn(2, 3, 64, 64)
    told, _ = backbone.features_and_maps(pixels, ground_distance_m=torch.tensor([10.0, 3.0]))
    for row, res in enumerate((10.0, 3.0)):
        fixed = made({**entry, "options": {"res": res}}, sentinel2_bands())
        assert not fixed.takes
        torch.testing.assert_close(told[row : row + 1], fixed.features(pixels[row : row + 1]))
    plain = made({**entry, "options": {"res": 1.0}}, sentinel2_bands())
    torch.testing.assert_close(backbone.features(pixels), plain.features(pixels))


@torch.inference_mode()
@pytest.mark.parametrize("modality", ["optical", "sar", "joint"])
@pytest.mark.parametrize("pooling", [None, "mean"])
def test_croma_takes_the_path_of_its_modality(small_models, modality, pooling):
    # the dataset's order is another one
    bands = [*radar("VH", "VV"), *sentinel2_bands()]
    entry = {"model": "croma_base", "modality": modality, "input": {"size": 48}}
    backbone = made({**entry, **({"pooling": pooling} if pooling else {})}, bands)
    names = [b["name"] for b in sentinel2_bands() if b["name"] != "B10"]
    wanted = {"optical": names, "sar": ["VV", "VH"], "joint": ["VV", "VH", *names]}[modality]
    assert backbone.plan.names == wanted
    pixels = torch.rand(2, len(wanted), 48, 48)
    first, rest = (pixels[:, :2], pixels[:, 2:]) if modality == "joint" else (pixels, pixels)
    found = backbone.module.model(x_sar=first, x_optical=rest)
    key = f"{modality}_GAP" if pooling is None else f"{modality}_encodings"
    expected = found[key] if pooling is None else found[key].mean(dim=1)
    torch.testing.assert_close(backbone.features(pixels), expected)
    backbone.make_maps(None, torch.float32)
    _, maps = backbone.features_and_maps(pixels)
    assert [tuple(one.shape) for one in maps] == [(2, 32, 6, 6)] * 4


def test_croma_is_fed_two_deviations_of_the_dataset_clipped(small_models):
    backbone = made(
        {"model": "croma_base", "modality": "sar"}, radar("VV", "VH", mean=-12.0, std=5.0)
    )
    stored = (
        torch.tensor([-30.0, -22.0, -12.0, -7.0, -2.0, 9.0]).view(6, 1, 1, 1).expand(6, 2, 120, 120)
    )
    fed = Preparer(backbone.plan, torch.device("cpu"))(stored)
    torch.testing.assert_close(fed[:, 0, 0, 0], torch.tensor([0, 0, 0.5, 0.75, 1, 1]))
    assert backbone.plan.clip and backbone.plan.normalization == "two_sigma"
    # the clip goes with the normalisation that it belongs to
    entry = {"model": "croma_base", "modality": "sar", "input": {"normalization": "dataset"}}
    assert not made(entry, radar("VV", "VH")).plan.clip


def test_panopticon_numbers_radar_by_polarisation_and_orbit():
    bands = [
        *radar("VV", "VH"),
        *(one | {"name": f"{one['name']}_up"} for one in radar("VV", "HV", orbit="ascending")),
        *(one | {"name": f"{one['name']}_down"} for one in radar("HH", "VH", orbit="descending")),
    ]
    entry = {"kind": "torchgeo", "model": "panopticon_vitb14", "weights": None}
    plan = plan_input({**entry, "input": {"bands": "all"}}, {"size": 56}, card_of(bands))
    assert wavelengths_nm(plan, "x", radar=PANOPTICON_RADAR) == [-1, -2, -5, -8, -11, -10]
    assert sorted(PANOPTICON_RADAR.values()) == [float(-n) for n in range(12, 0, -1)]


def test_only_croma_has_modalities():
    with pytest.raises(PermafrostError, match="resnet18 has no modalities"):
        made({"model": "resnet18", "modality": "sar"}, sentinel2_bands())


def test_interpolated_positions_are_noted():
    from permafrost.backbones.timm_models import TimmOptions, TimmWeights, _interpolated

    card = card_of(sentinel2_bands())
    name = "vit_small_patch14_dinov2.lvd142m"
    weights = {"source": "pretrained"}
    options = TimmOptions(model=name, weights=TimmWeights(**weights))
    for size, noted in ((224, True), (518, False)):
        entry = {
            "kind": "timm",
            "model": name,
            "weights": weights,
            "input": {"size": size, "white": 0.3},
        }
        plan = plan_input(entry, {}, card)
        assert bool(_interpolated(options, plan, trained=True)) == noted
        assert not _interpolated(options, plan, trained=False)
