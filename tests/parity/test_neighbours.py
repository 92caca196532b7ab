"""Features of an image do not depend on the images beside it in a batch, whatever is told of them: for every kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.backbones import validated
from helpers.project import REPOSITORY
from helpers.stores.images import SPLITS, Dataset, band, sentinel2_bands
from permafrost.backbones.registry import KINDS

torchgeo_models = pytest.importorskip("torchgeo.models")

TEMPLATE = REPOSITORY / "config" / "backbones" / "template.py"
OPTICAL = {"bands": ["B04", "B03", "B02"]}
TINY = {"embed_dim": 32, "depth": 1, "num_heads": 2}

#: at least one backbone of every kind, untrained
ENTRIES = {
    "imagestats": [{}],
    "rcf": [{"features": 16}],
    "timm": [{"model": "resnet18", "weights": {"source": "random"}}],
    "torchgeo": [
        {"model": name, "weights": None, **entry}
        for name, entry in {
            "copernicusfm_base": {"input": {"bands": "all"}},
            "dofa_base_patch16_224": {"input": {"bands": "all", "size": 64}},
            "panopticon_vitb14": {"input": {"bands": [*OPTICAL["bands"], "VV"], "size": 56}},
            "scalemae_large_patch16": {"input": {**OPTICAL, "size": 64}},
        }.items()
    ]
    + [
        {"model": "croma_base", "weights": None, "modality": modality, "input": {"size": 48}}
        for modality in ("optical", "sar", "joint")
    ],
    "olmoearth": [{"model": "nano", "version": "v1.2", "weights": None, "patch_size": 4}],
    "entrypoint": [{"entrypoint": f"{TEMPLATE}:build"}],
}
#: and kinds that cannot be built from nothing, with what they need
NEEDS = {
    "galileo": "the authors' code and weights",
    "terratorch": "an environment of its own, see test_terratorch.py",
    "embeddings": "files, and has no batches",
    "coordinates": "places, each by itself",
}


@pytest.fixture
def small_models(monkeypatch):
    """torchgeo's models with few layers: the way they are called stays the same."""
    from torchgeo.models import CROMA, DOFA, CopernicusFM
    from torchgeo.models.scale_mae import ScaleMAE

    small = {
        "dofa_base_patch16_224": lambda **k: DOFA(**{**k, **TINY}),
        "copernicusfm_base": lambda **k: CopernicusFM(**{**k, **TINY}),
        "croma_base": lambda **k: CROMA(**{**k, "encoder_dim": 32, "encoder_depth": 2}),
        "scalemae_large_patch16": lambda **k: ScaleMAE(**{**k, **TINY, "patch_size": 16}),
    }
    for name, function in small.items():
        monkeypatch.setattr(torchgeo_models, name, function)


def dataset(folder: Path, metadata: bool | str = True) -> Dataset:
    shared = {"sensor": "sentinel1", "unit": "db", "scale": 1.0}
    radar = [band(name, common_name=name.lower(), **shared) for name in ("VV", "VH")]
    bands = [*sentinel2_bands(), *radar]
    return Dataset(folder, bands=bands, metadata=metadata, card={"gsd_m": 10.0}, counts=(5, 2, 3))


def both(folder: Path, entry: dict, metadata: bool | str = True):
    """Features of the test split by batches of one and of all images, and what was told."""
    data, entry = dataset(folder, metadata), validated(entry)
    alone, beside = (
        data.extract(entry, out=f"by-{size}", batch_size=size, extraction={"size": 32})
        for size in (1, 64)
    )
    for split in SPLITS:
        yield alone[split].read("embeddings"), beside[split].read("embeddings")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_here(kind):
    assert (kind in ENTRIES) != (kind in NEEDS), f"add {kind} to ENTRIES, or why not to NEEDS"


ALL = [{"kind": kind, **entry} for kind, entries in ENTRIES.items() for entry in entries]
TOLD = [one for one in ALL if one.get("model") in ("copernicusfm_base", "nano")]


@pytest.mark.parametrize(
    ("entry", "metadata"),
    [
        *((one, True) for one in ALL),
        *((one, "lat") for one in TOLD),
        *((one, "date") for one in TOLD),
    ],
    ids=lambda one: (
        "-".join(str(one[k]) for k in ("kind", "model", "modality") if k in one)
        if isinstance(one, dict)
        else str(one)
    ),
)
def test_features_do_not_depend_on_neighbours(tmp_path, small_models, entry, metadata):
    if entry["kind"] == "olmoearth":
        pytest.importorskip("olmoearth_pretrain_minimal")
    for alone, beside in both(tmp_path, entry, metadata):
        scale = np.abs(alone).max()
        np.testing.assert_allclose(alone, beside, rtol=1e-3, atol=1e-5 * scale)


def test_one_unknown_place_would_change_the_features_of_its_neighbours(small_models):
    """Why it is all or none: with torchgeo's Copernicus-FM a batch with one NaN is a batch without places."""
    from permafrost.backbones.torchgeo.families import copernicusfm_metadata

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torchgeo_models.copernicusfm_base().eval()
    images, place = torch.rand(2, 1, 32, 32), torch.tensor([[7.0, 46.0], [8.0, 47.0]])
    mixed = torch.tensor([[7.0, 46.0], [float("nan"), 47.0]])
    with torch.inference_mode():
        known, unknown = (
            model(images, copernicusfm_metadata(2, images.device, place=one), [665.0], [30.0])
            for one in (place, mixed)
        )
    assert not torch.allclose(known[0], unknown[0], rtol=1e-3)
