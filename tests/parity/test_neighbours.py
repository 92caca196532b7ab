"""Features of an image do not depend on the images beside it in a batch, whatever is told of them: for every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from helpers.neighbours import alone_and_beside, same_features
from helpers.project import REPOSITORY
from permafrost.backbones.registry import KINDS

torchgeo_models = pytest.importorskip("torchgeo.models")

DATA = Path(os.environ.get("PERMAFROST_SHARED", REPOSITORY.parent / "shared" / "data"))
GALILEO = DATA.parent / "reference" / "galileo" / "single_file_galileo.py"
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
    "galileo": [{"model": "nano", "model_file": str(GALILEO), "weights": None}],
    "entrypoint": [{"entrypoint": f"{TEMPLATE}:build"}],
}
#: and kinds that have no batches, or are compared elsewhere
NEEDS = {
    "derived": "no model: it reads the stored features of others",
    "terratorch": "an environment of its own: `neighbours` in terratorch_equality.py, run by test_terratorch.py",
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
    if entry["kind"] == "galileo" and not GALILEO.is_file():
        pytest.skip(f"Galileo's code is not at {GALILEO}")
    assert all(same_features(*one) for one in alone_and_beside(tmp_path, entry, metadata))


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
