"""Presto and TESSERA on images against torchgeo's models called by hand on series of single pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer

library = pytest.importorskip("torchgeo.models")

TESSERA_S2 = ["B04", "B02", "B03", "B08", "B8A", "B05", "B06", "B07", "B11", "B12"]


def radar_bands() -> list[dict]:
    shared = {"sensor": "sentinel1-rtc", "unit": "db", "scale": 1.0}
    return [band(name, common_name=name.lower(), **shared) for name in ("VV", "VH")]


def made(bands, **entry):
    card, entry = card_of(bands), {"kind": "torchgeo", "input": {"dates": "all"}, **entry}
    plan = plan_input(entry, {"size": 224}, card)
    return build(entry, plan, Resources("backbone x", card, 0, None))


def fed_of(backbone, stored: torch.Tensor) -> torch.Tensor:
    """(B, T, C, H, W) as the images are fed."""
    positions = [channel.index for channel in backbone.plan.channels]
    prepare = Preparer(backbone.plan, torch.device("cpu"))
    return prepare(stored[:, :, positions].flatten(0, 1)).unflatten(0, stored.shape[:2])


@pytest.mark.parametrize("pixels", ["mean", "centre", "every"])
def test_presto_with_its_real_weights_on_real_series(shared_data, pixels):
    content = np.load(shared_data / "presto_timeseries" / "fuel_moisture.npz")
    count = 6
    raw = torch.from_numpy(content["s1_s2_era5_srtm"][:count].astype(np.float32))
    month = torch.from_numpy(content["month"][:count]).long()
    place = torch.from_numpy(content["latlon"][:count].astype(np.float32))
    times = raw.shape[1]
    path = shared_data / "weights" / "presto_default.safetensors"
    weights = {"source": "file", "path": str(path), "like": "Presto_Weights.PRESTO"}

    # torchgeo's own call: B9 dropped, weather and terrain masked, no class of land cover
    values = torch.cat([raw[..., :10], raw[..., 11:]], dim=-1)
    values[..., :2] = (values[..., :2] + 25) / 25
    values[..., 2:12] = values[..., 2:12] / 1e4
    values[..., 16] = (values[..., 8] - values[..., 4]) / (values[..., 8] + values[..., 4])
    values[..., 12:16] = 0
    mask = torch.zeros_like(values)
    mask[..., 12:16] = 1
    months = (month.reshape(count, -1)[:, :1] + torch.arange(times)) % 12
    from safetensors.torch import load_file

    model = library.presto().eval()
    model.load_state_dict(load_file(path))
    classes = torch.full((count, times), 9)
    with torch.no_grad():
        tokens, _, _ = model.encoder(values, classes, place, mask, months)
    wanted = tokens.mean(1)

    bands = [*sentinel2_bands(), *radar_bands()]
    order = [
        "VV",
        "VH",
        "B02",
        "B03",
        "B04",
        "B05",
        "B06",
        "B07",
        "B08",
        "B8A",
        "B09",
        "B11",
        "B12",
    ]
    stored = torch.zeros(count, times, len(bands), 2, 2)
    for at, one in enumerate(bands):
        if one["name"] in order:
            stored[:, :, at] = raw[..., order.index(one["name"])][..., None, None]
    backbone = made(bands, weights=weights, pixels=pixels)
    days = torch.tensor([1, 32, 61, 92, 122, 153, 183, 214, 245, 275, 306, 336])
    dates = torch.stack([torch.full_like(months, 2019), days[months]], dim=-1)
    told = {"dates": dates, "place": place.flip(-1), "present": torch.ones_like(months).bool()}
    with torch.no_grad():
        found = backbone.features_and_maps(fed_of(backbone, stored), **told)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(wanted[0], wanted[1], atol=1e-2)
    assert backbone.weights_sha256
    # the same numbers, bit for bit, of the same tensors
    fed = torch.rand(count, times, 12, 1, 1)
    inputs, masked = backbone.module.inputs(fed[..., 0, 0])
    with torch.no_grad():
        tokens, _, _ = model.encoder(inputs, classes, place, masked, months)
        assert torch.equal(backbone.features_and_maps(fed, **told)[0], tokens.mean(1))


def test_presto_masks_what_is_not_there_and_takes_july(monkeypatch):
    backbone = made(rgb_bands(white=0.3558), model="presto", weights=None)
    fed = torch.rand(3, 3, 5, 5)
    given = {}
    encoder = backbone.module.model
    forward = encoder.forward
    monkeypatch.setattr(
        encoder,
        "forward",
        lambda *args: given.update(zip("xclmt", args, strict=True)) or forward(*args),
    )
    backbone.features(fed)
    assert given["x"][0, 0].nonzero()[:, 0].tolist() == [2, 3, 4]
    # red, green, blue are B4, B3, B2; here the order is that of the model
    names = [channel.wanted for channel in backbone.plan.channels]
    assert names == ["B2", "B3", "B4"]
    assert (given["m"][0, 0] == 0).nonzero()[:, 0].tolist() == [2, 3, 4]
    assert given["t"].tolist() == [[6]] * 3
    assert given["c"].tolist() == [[9]] * 3


def test_every_pixel_gives_a_map_in_blocks(monkeypatch):
    from permafrost.backbones.torchgeo import pixels

    backbone = made(sentinel2_bands(), model="presto", weights=None, pixels="every")
    backbone.make_maps(None, torch.float32)
    fed = torch.rand(2, 3, len(backbone.plan), 4, 4)
    dates = torch.tensor([[[2020, 10], [2020, 50], [2020, 90]], [[2021, 200], [0, 0], [0, 0]]])
    present = torch.tensor([[True] * 3, [True, False, False]])
    with torch.no_grad():
        features, (maps,) = backbone.features_and_maps(fed, dates=dates, present=present)
        monkeypatch.setattr(pixels, "_BLOCK", 5)
        again, (maps_again,) = backbone.features_and_maps(fed, dates=dates, present=present)
        inner = backbone.module.module
        one = inner.features(fed[:1, :, :, 1, 3], dates[:1], None)
        other = inner.features(fed[1:, :1, :, 3, 0], dates[1:, :1], None)
    assert maps.shape == (2, 128, 4, 4)
    torch.testing.assert_close(maps[:1, :, 1, 3], one, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(maps[1:, :, 3, 0], other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(features, maps.mean((2, 3)), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again, features, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(maps_again, maps, rtol=1e-4, atol=1e-5)


def test_maps_need_every_pixel():
    backbone = made(sentinel2_bands(), model="presto", weights=None)
    with pytest.raises(PermafrostError, match="pixels: every"):
        backbone.make_maps(None, torch.float32)
    with pytest.raises(PermafrostError, match="takes images, not series"):
        made(sentinel2_bands(), model="resnet18", weights=None, pixels="every", input={})


def small_tessera(monkeypatch):
    """TESSERA has layers of 4096; the same module with few of them is as good here."""
    from torchgeo.models import tessera

    def few(*args, **kwargs):
        model = whole(*args, **kwargs)
        for part in (model.s2_backbone, model.s1_backbone):
            part.transformer_encoder.layers = part.transformer_encoder.layers[:1]
        return model

    whole = tessera
    monkeypatch.setattr(library, "tessera", few)
    return few


def test_tessera_is_fed_z_scores_and_days_of_the_year(monkeypatch):
    few = small_tessera(monkeypatch)
    bands = [*sentinel2_bands(), *radar_bands()]
    backbone = made(bands, model="tessera", weights=None, seed=1)
    rng = np.random.default_rng(0)
    stored = torch.from_numpy(rng.integers(1, 6000, (2, 3, 15, 1, 1)).astype(np.float32))
    stored[:, :, 13:] = -stored[:, :, 13:] / 300
    names = [one["name"] for one in bands]
    optical = torch.stack([stored[:, :, names.index(n), 0, 0] for n in TESSERA_S2], dim=-1)
    # the authors store radar as twice the decibels, shifted by 50, times 200
    radar = (2 * stored[:, :, 13:, 0, 0] + 50) * 200
    dates = torch.tensor([[[2020, 10], [2020, 50], [2020, 300]], [[2021, 1], [2021, 2], [2021, 3]]])
    days = dates[..., 1:].float()
    from torchgeo.models import Tessera_Weights

    by_hand = torch.cat([optical, days, radar, days], dim=-1)
    by_hand = Tessera_Weights.TESSERA.transforms(by_hand)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        theirs = few().eval()
        wanted = theirs(by_hand)
        found = backbone.features_and_maps(fed_of(backbone, stored), dates=dates)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    with pytest.raises(PermafrostError, match="needs the date of every image"):
        backbone.features(fed_of(backbone, stored))


def test_tesseras_encoder_of_one_sensor_comes_from_a_file(monkeypatch, tmp_path):
    few = small_tessera(monkeypatch)
    path = tmp_path / "encoder.pth"
    torch.save(few().s2_backbone.state_dict(), path)
    from torchgeo.models import Tessera_Weights

    def with_weights(weights=None):
        model = few()
        assert weights == Tessera_Weights.TESSERA_SENTINEL2_ENCODER
        model.s2_backbone.load_state_dict(weights.get_state_dict(progress=True))
        return model.s2_backbone

    monkeypatch.setattr(library, "tessera", with_weights)
    like = "Tessera_Weights.TESSERA_SENTINEL2_ENCODER"
    backbone = made(sentinel2_bands(), weights={"source": "file", "path": str(path), "like": like})
    assert backbone.plan.names == TESSERA_S2
    dates = torch.tensor([[[2020, 10], [2020, 50]]])
    assert backbone.features_and_maps(torch.rand(1, 2, 10, 3, 3), dates=dates)[0].shape == (1, 512)
    with pytest.raises(PermafrostError, match=r"no band 'VV'|no band"):
        made(sentinel2_bands(), model="tessera", weights=None)
