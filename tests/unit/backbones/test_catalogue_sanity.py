"""Every backbone of the catalogues, with random weights, fed images of its own bands and size.

What takes long carries the marker of long tests; what a machine of 24 GB cannot hold, or what needs code that only its
users can fetch, is named below with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import json

import pytest
import torch
from helpers.catalogue import build_untrained, catalogue, check_promises, untrained
from permafrost.backbones import timm_models
from permafrost.backbones.torchgeo import models as torchgeo_kind
from torchgeo.models import croma

CATALOGUE = catalogue()
NAMES = CATALOGUE.names(["all"])
#: fed in the default suite
QUICK = ("imagestats", "mobilenetv2-imagenet", "vit-small-s1-mae")
#: more parameters than this take more minutes than a test may: shapes only, on the meta device. Each of timm's classes
#: is fed in a smaller size
MOST, MOST_OF_TIMM = 95_000_000, 60_000_000
#: fed images of 1024 pixels, like hiera-tiny-sam2, which is fed here
LARGE_IMAGES = ("hiera-small-sam2", "hiera-base-plus-sam2")
LARGE = [
    name
    for name in NAMES
    if (CATALOGUE.written(name).get("parameters") or 0)
    > (MOST_OF_TIMM if CATALOGUE.written(name).get("kind") == "timm" else MOST)
    or name in LARGE_IMAGES
]
#: kinds whose models other code builds: tested with that code
NEEDS = {
    "coordinates": "is fed no pixels: tests/unit/backbones/test_coordinates.py",
    "embeddings": "is fed no pixels: tests/unit/features/test_located.py",
    "entrypoint": "the authors' code: tests/unit/backbones/test_authors.py",
    "galileo": "the authors' file single_file_galileo.py: tests/parity/test_galileo.py",
    "olmoearth": "dates and bands of two sensors: tests/parity/test_olmoearth.py",
}
#: models whose weights choose the encoder, so that random ones have another form
NEEDS_BY_NAME = (
    dict.fromkeys(
        ("presto", "tessera", "tessera-s1", "tessera-s2"),
        "series of pixels: tests/parity/test_torchgeo_pixels.py",
    )
    | dict.fromkeys(
        (name for name in NAMES if name.startswith("unet-")),
        "the encoder that the weights name: tests/parity/test_torchgeo_state_dicts.py",
    )
    | {"vit-base-sam": "images of 1024 pixels take minutes: test_layers_timm.py feeds smaller ones"}
)
#: name -> layers are called more than once, or described by nobody
NO_LAYERS = {
    "imagestats": "statistics have no layers",
    "imagestats-all": "statistics have no layers",
    "imagestats-native": "statistics have no layers",
    **{f"handcrafted-{level}": "statistics have no layers" for level in (1, 2, 3)},
}


def entry_of(name: str) -> dict:
    """The entry; what another environment or code that is not here must build is skipped with the reason."""
    entry = CATALOGUE.entry(name)
    if "environment" in entry:
        pytest.skip(
            f"runs in the environment {entry['environment']}, and is fed by tests/parity/test_terratorch.py"
        )
    if reason := NEEDS.get(entry["kind"]) or NEEDS_BY_NAME.get(name):
        pytest.skip(reason)
    return entry


@functools.cache
def first_alike() -> dict[str, str]:
    """Name -> the first backbone whose untrained network and input are the same."""
    first, found = {}, {}
    for name in NAMES:
        entry = CATALOGUE.entry(name)
        if "environment" in entry or entry["kind"] in NEEDS or name in NEEDS_BY_NAME:
            continue
        built, contract = untrained(name, entry)
        options = json.dumps(dataclasses.asdict(built.options), sort_keys=True)
        seen = (contract.bands, contract.sensor, contract.size, contract.crop)
        network = (built.kind, options, str(built.layers), seen)
        found[name] = first.setdefault(network, name)
    return found


def fed(name: str) -> pytest.param:
    return pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_says_where_its_weights_are_from(name):
    entry = CATALOGUE.entry(name)
    trained = entry.get("weights") not in (None, {"source": "random"})
    if trained and entry["kind"] != "embeddings":
        wanted = {"title", "licence", "citation", "url", "year", "parameters", "trained_on"}
        assert wanted - {*entry} == set()
    assert entry["title"]


@pytest.mark.parametrize("name", [fed(name) for name in NAMES])
def test_a_backbone_does_what_its_entry_promises(name):
    """Shapes, layers, pooling, the number of parameters; no image sees another; every band counts."""
    entry = entry_of(name)
    if name in LARGE:
        pytest.skip("too large to be fed here: its shapes are tested on the meta device")
    if name not in QUICK and (alike := first_alike()[name]) != name:
        assert entry["parameters"] == CATALOGUE.entry(alike)["parameters"]
        pytest.skip(f"without training the same as {alike}")
    check_promises(name, entry, layers=name not in NO_LAYERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_backbone_is_built_without_memory(name, monkeypatch):
    """The number of parameters and the layers of what is too large to be fed here, on the meta device."""
    # values do not exist there
    for module in (timm_models, torchgeo_kind):
        monkeypatch.setattr(module, "check_finite", lambda *values, **where: None)
    # CROMA's distances of all pairs of patches are computed one by one
    monkeypatch.setattr(
        croma,
        "get_2dalibi",
        lambda num_heads, num_patches: torch.empty(1, num_heads, num_patches, num_patches),
    )
    entry = entry_of(name)
    backbone = build_untrained(name, entry, device="meta")
    assert entry["parameters"] == backbone.parameters
    backbone.make_maps(untrained(name, entry)[0].layers, torch.float32)
    assert backbone.layers
