"""Every backbone of the catalogues, with random weights, fed images of its own bands and size.

What takes long carries the marker of long tests; what a machine of 24 GB cannot hold, or what needs code that only its
users can fetch, is named below with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings

import pytest
import torch
from helpers.catalogue import build_untrained, catalogue, feeding, untrained
from permafrost.backbones import timm_models
from permafrost.backbones.torchgeo import models as torchgeo_kind

CATALOGUE = catalogue()
NAMES = CATALOGUE.names(["all"])
#: fed in the default suite
QUICK = ("imagestats", "mobilenetv2-imagenet", "vit-small-s1-mae")
#: more parameters than this take more minutes than a test may: shapes only, on the meta device
MOST = 95_000_000
#: kinds whose models other code builds: tested with that code
NEEDS = {
    "coordinates": "is fed no pixels: tests/unit/backbones/test_coordinates.py",
    "embeddings": "is fed no pixels: tests/unit/features/test_located.py",
    "entrypoint": "the authors' code: tests/unit/backbones/test_authors.py",
    "galileo": "the authors' file single_file_galileo.py: tests/parity/test_galileo.py",
    "olmoearth": "dates and bands of two sensors: tests/parity/test_olmoearth.py",
}
#: models whose weights choose the encoder, so that random ones have another form
NEEDS_BY_NAME = dict.fromkeys(
    ("presto", "tessera", "tessera-s1", "tessera-s2"),
    "series of pixels: tests/parity/test_torchgeo_pixels.py",
) | {"vit-base-sam": "images of 1024 pixels take minutes: test_layers_timm.py feeds smaller ones"}
#: name -> layers are called more than once, or described by nobody
NO_LAYERS = {
    "imagestats": "statistics have no layers",
    "imagestats-all": "statistics have no layers",
    "imagestats-native": "statistics have no layers",
}


def entry_of(name: str) -> dict:
    """The entry; what another environment or code that is not here must build is skipped with the reason."""
    entry = CATALOGUE.entry(name)
    if "environment" in entry:
        pytest.skip(f"runs in the environment {entry['environment']}, whose own tests feed it")
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
        # not counted yet
        uncounted = entry["kind"] in ("olmoearth", "terratorch")
        if uncounted:
            wanted.remove("parameters")
        assert wanted - {*entry} == set()
    assert entry["title"]


@pytest.mark.parametrize("name", [fed(name) for name in NAMES])
def test_a_backbone_does_what_its_entry_promises(name):
    """Shapes, layers, pooling, the number of parameters; no image sees another; every band counts."""
    entry = entry_of(name)
    if entry.get("parameters", 0) > MOST:
        pytest.skip("too large to be fed here: its shapes are tested on the meta device")
    if name not in QUICK and (alike := first_alike()[name]) != name:
        assert entry["parameters"] == CATALOGUE.entry(alike)["parameters"]
        pytest.skip(f"without training the same as {alike}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backbone = build_untrained(name, entry)
    assert entry.get("parameters", backbone.parameters) == backbone.parameters
    random, contract = untrained(name, entry)
    plan = feeding(name, contract)
    side = plan.side or 32
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(2, len(plan), side, side, generator=generator)
    if name not in NO_LAYERS:
        backbone.make_maps(random.layers, torch.float32)
    with torch.inference_mode():
        together, maps = backbone.features_and_maps(images)
        alone, _ = backbone.features_and_maps(images[1:])
        assert together.ndim == 2 and len(together) == 2 and together.isfinite().all()
        largest = together.abs().max()
        torch.testing.assert_close(alone[0], together[1], rtol=1e-3, atol=float(1e-4 * largest))
        for values in maps:
            assert values.ndim == 4 and len(values) == 2 and values.isfinite().all()
        for band in range(len(plan)):
            changed = images[:1].clone()
            changed[:, band] = 1 - changed[:, band]
            moved, _ = backbone.features_and_maps(changed)
            assert (moved[0] - together[0]).abs().max() > 1e-6 * largest, plan.names[band]


LARGE = [name for name in NAMES if (CATALOGUE.written(name).get("parameters") or 0) > MOST]


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_large_backbone_is_built_without_memory(name, monkeypatch):
    """The number of parameters and the layers of what is too large to be fed here, on the meta device."""
    for module in (timm_models, torchgeo_kind):
        # values do not exist there
        monkeypatch.setattr(module, "check_finite", lambda *values, **where: None)
    entry = entry_of(name)
    backbone = build_untrained(name, entry, device="meta")
    assert entry["parameters"] == backbone.parameters
    backbone.make_maps(untrained(name, entry)[0].layers, torch.float32)
    assert backbone.layers
