"""OlmoEarth as this library feeds it, against the authors' minimal package called directly, with random weights."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from helpers.backbones import build, plan_input
from helpers.catalogue import catalogue
from helpers.stores.images import band, card_of, rgb_bands, sentinel2_bands
from permafrost.backbones.backbone import Resources
from permafrost.backbones.olmoearth.bands import MODALITIES
from permafrost.core.errors import PermafrostError
from permafrost.features.prepare import Preparer

package = pytest.importorskip("olmoearth_pretrain_minimal")

from olmoearth_pretrain_minimal.olmoearth_pretrain_v1.utils.constants import (  # noqa: E402
    Modality,
)
from olmoearth_pretrain_minimal.olmoearth_pretrain_v1.utils.datatypes import (  # noqa: E402
    MaskedOlmoEarthSample,
)

CATALOGUE = catalogue()
S2 = ["B02", "B03", "B04", "B08", "B05", "B06", "B07", "B8A", "B11", "B12", "B01", "B09"]
VERSIONS = ("v1", "v1.1", "v1.2")


def radar_bands() -> list[dict]:
    shared = {"sensor": "sentinel1-rtc", "unit": "db", "scale": 1.0}
    return [band(name, common_name=name.lower(), **shared) for name in ("VV", "VH")]


def entry(**changes) -> dict:
    base = {"kind": "olmoearth", "model": "nano", "version": "v1.2", "weights": None, "seed": 5}
    return {**base, **changes}


def made(bands, **changes):
    card, chosen = card_of(bands), entry(**changes)
    plan = plan_input(chosen, {"size": 224}, card)
    return build(chosen, plan, Resources("backbone x", card, 0, None))


def authors(version: str, size: str = "nano"):
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(5)
        encoder = package.OlmoEarthPretrain_v1(size, version).model.encoder
    return encoder.eval()


def normalised(stored: np.ndarray, modality, version: str) -> torch.Tensor:
    """By the authors' own normaliser; NaN stands for bands that are not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        normal = package.Normalizer(model_type=version).normalize(modality, stored)
    return torch.from_numpy(normal.astype(np.float32))


def sample(date=(1, 6, 2020), *, groups, times=1, **values):
    fields = {}
    for name, one in values.items():
        fields[name] = one
        fields[f"{name}_mask"] = torch.zeros(*one.shape[:4], groups[name])
    count = next(iter(values.values())).shape[0]
    stamps = torch.tensor(date).expand(count, times, 3)
    return MaskedOlmoEarthSample(timestamps=stamps, **fields)


def groups_of(version: str) -> dict[str, int]:
    return {"sentinel2_l2a": 3 if version == "v1" else 1, "sentinel1": 1}


def fed_and_stored(backbone, bands: list[dict], side=32):
    rng = np.random.default_rng(1)
    stored = torch.from_numpy(rng.integers(1, 9000, (2, len(bands), side, side)).astype(np.float32))
    for at, one in enumerate(bands):
        if one["unit"] == "db":
            stored[:, at] = -stored[:, at] / 300
    positions = [channel.index for channel in backbone.plan.channels]
    fed = Preparer(backbone.plan, torch.device("cpu"))(stored[:, positions])
    by_name = {one["name"]: stored[:, at].numpy() for at, one in enumerate(bands)}
    return fed, by_name


@pytest.mark.parametrize("version", VERSIONS)
def test_features_of_both_sentinels_are_those_of_the_authors_code(version):
    bands = [*sentinel2_bands(), *radar_bands()]
    backbone, theirs = made(bands, version=version, patch_size=4), authors(version)
    fed, stored = fed_and_stored(backbone, bands)
    optical = np.stack([stored[name] for name in S2], axis=-1)[:, :, :, None]
    radar = np.stack([stored["VV"], stored["VH"]], axis=-1)[:, :, :, None]
    ours = backbone.module.sample(fed[:, None], None)
    torch.testing.assert_close(
        ours.sentinel2_l2a,
        normalised(optical, Modality.SENTINEL2_L2A, version),
        rtol=1e-4,
        atol=1e-5,
    )
    torch.testing.assert_close(
        ours.sentinel1, normalised(radar, Modality.SENTINEL1, version), rtol=1e-4, atol=1e-5
    )
    # 29 February, as the authors count months
    given = sample(
        (29, 1, 2020),
        groups=groups_of(version),
        sentinel2_l2a=ours.sentinel2_l2a,
        sentinel1=ours.sentinel1,
    )
    with torch.no_grad():
        tokens = theirs(given, patch_size=4, fast_pass=True)["tokens_and_masks"]
        dates = torch.tensor([[2020, 60], [2020, 60]])
        found = backbone.features_and_maps(fed, dates=dates)[0]
        assert torch.equal(found, tokens.pool_unmasked_tokens("mean"))
        assert not torch.equal(backbone.features(fed), found)


@pytest.mark.parametrize("version", VERSIONS)
def test_absent_bands_are_filled_as_the_authors_normaliser_fills_them(version):
    bands = sentinel2_bands(("B02", "B04", "B08", "B11"))
    backbone, theirs = made(bands, version=version), authors(version)
    fed, stored = fed_and_stored(backbone, bands)
    shape = next(iter(stored.values())).shape
    there = [stored.get(name, np.full(shape, np.nan)) for name in S2]
    wanted = normalised(np.stack(there, axis=-1)[:, :, :, None], Modality.SENTINEL2_L2A, version)
    ours = backbone.module.sample(fed[:, None], None)
    torch.testing.assert_close(ours.sentinel2_l2a, wanted, rtol=1e-4, atol=1e-5)
    assert ours.sentinel1 is None
    given = sample(groups=groups_of(version), sentinel2_l2a=ours.sentinel2_l2a)
    with torch.no_grad():
        tokens = theirs(given, patch_size=8, fast_pass=True)["tokens_and_masks"]
        assert torch.equal(backbone.features(fed), tokens.pool_unmasked_tokens("mean"))
    filled = backbone.notes["filled"]
    assert len(filled) == 8
    assert filled["B12"] == ("B11" if version == "v1" else "zeros")


@pytest.mark.parametrize("version", ["v1", "v1.2"])
def test_maps_are_the_authors_patch_features(version):
    bands = [*sentinel2_bands(), *radar_bands()]
    backbone, theirs = made(bands, version=version), authors(version)
    fed, _ = fed_and_stored(backbone, bands, side=24)
    given = backbone.module.sample(fed[:, None], None)
    backbone.make_maps(None, torch.float32)
    assert backbone.layers == ("maps.3", "maps.2", "maps.1", "maps.0")
    with torch.no_grad():
        found, maps = backbone.features_and_maps(fed)
        tokens = theirs(given, patch_size=8, fast_pass=True)["tokens_and_masks"]
        wanted = tokens.pool_unmasked_tokens("mean", spatial_pooling=True)
        assert torch.equal(maps[0], wanted.permute(0, 3, 1, 2))
        # the same, of a model that ends after its second block
        theirs.blocks = theirs.blocks[:2]
        tokens = theirs(given, patch_size=8, fast_pass=True)["tokens_and_masks"]
        wanted = tokens.pool_unmasked_tokens("mean", spatial_pooling=True)
        assert torch.equal(maps[2], wanted.permute(0, 3, 1, 2))


def test_features_of_v1_3_are_the_location_tokens_of_the_authors_code():
    bands = [*sentinel2_bands(), *radar_bands()]
    backbone, theirs = made(bands, model="base", version="v1.3"), authors("v1.3", "base")
    fed, stored = fed_and_stored(backbone, bands, side=16)
    given = backbone.module.sample(fed[:, None], None)
    optical = np.stack([stored[name] for name in S2], axis=-1)[:, :, :, None]
    wanted = normalised(optical, Modality.SENTINEL2_L2A, "v1.3")
    torch.testing.assert_close(given.sentinel2_l2a, wanted, rtol=1e-4, atol=1e-5)
    backbone.make_maps(None, torch.float32)
    assert backbone.layers == ("location", "maps.8", "maps.5", "maps.2")
    with torch.no_grad():
        found, maps = backbone.features_and_maps(fed)
        grid = theirs(given, patch_size=8, fast_pass=True)["location_tokens"]
        assert torch.equal(found, grid.mean(dim=(1, 2)))
        assert torch.equal(maps[0], grid.permute(0, 3, 1, 2))


@pytest.mark.parametrize("version", ["v1", "v1.2"])
def test_dates_that_a_sample_does_not_have_change_nothing(version):
    bands = sentinel2_bands()
    backbone = made(bands, version=version, input={"dates": "all"})
    backbone.make_maps(["maps.3"], torch.float32)
    series = torch.rand(2, 3, 12, 16, 16)
    dates = torch.tensor([[[2020, 10], [2020, 40], [2020, 300]], [[2021, 100], [0, 0], [0, 0]]])
    present = torch.tensor([[True, True, True], [True, False, False]])
    with torch.no_grad():
        found, (maps,) = backbone.features_and_maps(series, dates=dates, present=present)
        short, (short_maps,) = backbone.features_and_maps(series[1:, :1], dates=dates[1:, :1])
        whole, (whole_maps,) = backbone.features_and_maps(series[:1], dates=dates[:1])
    for ours, wanted in [(found[1:], short), (maps[1:], short_maps)]:
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)
    for ours, wanted in [(found[:1], whole), (maps[:1], whole_maps)]:
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)


def test_weights_of_the_authors_file_are_loaded_whole(tmp_path):
    with torch.random.fork_rng():
        torch.manual_seed(11)
        whole = package.OlmoEarthPretrain_v1("nano", "v1.2").model
    path = tmp_path / "weights.pth"
    torch.save(whole.state_dict(), path)
    weights = {"source": "file", "path": str(path)}
    backbone = made(sentinel2_bands(), weights=weights)
    ours, theirs = backbone.module.encoder.state_dict(), whole.encoder.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    with pytest.raises(PermafrostError, match="does not fit the model"):
        made(sentinel2_bands(), weights=weights, version="v1")


def test_every_published_size_can_be_built():
    from permafrost.backbones.olmoearth.models import SIZES

    for version, sizes in SIZES.items():
        for size in set(sizes) - {"base", "large"}:
            assert made(rgb_bands(white=0.3558), model=size, version=version)
    with pytest.raises(PermafrostError, match=r"OlmoEarth v1\.2 has no size large"):
        made(rgb_bands(white=0.3558), model="large")


def test_what_it_cannot_be_fed_is_refused():
    backbone = made(sentinel2_bands())
    with pytest.raises(PermafrostError, match="a multiple of 8 pixels, not 20 x 20"):
        backbone.features(torch.rand(1, 12, 20, 20))
    with pytest.raises(PermafrostError, match="has no band 'blue', 'green', 'red'"):
        made(rgb_bands(), input={"bands": ["red", "green", "blue"], "normalization": "dataset"})


@pytest.mark.parametrize(
    "name", [name for name in CATALOGUE.names(["all"]) if name.startswith("olmoearth")]
)
def test_an_entry_says_how_many_parameters_the_encoder_has(name):
    entry = CATALOGUE.entry(name)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        encoder = package.OlmoEarthPretrain_v1(entry["model"], entry["version"]).model.encoder
    encoder.restrict_input_modalities(list(MODALITIES))
    assert sum(one.numel() for one in encoder.parameters()) == entry["parameters"]
