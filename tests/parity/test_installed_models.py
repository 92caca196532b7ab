"""What planning knows of timm and torchgeo without importing them, against the libraries themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.backbones import plan_input
from permafrost.backbones.input.contract import input_contract, resolve_input
from permafrost.backbones.input.matching import OfferedBands
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError
from permafrost.data.entry_checks import selected_bands
from permafrost.data.sources import read_entry
from permafrost.plan.catalogue import Catalogue
from permafrost.plan.installed import FILE, Installed, describe

CONFIG = Path(__file__).parents[2] / "config"
EXTRACTION = {"size": 224, "interpolation": "bilinear", "antialias": False}


@pytest.fixture(scope="module")
def kept() -> dict:
    return json.loads(FILE.read_text())


def test_the_description_that_is_kept_is_that_of_the_locked_versions(kept):
    made = json.loads(json.dumps(describe()))
    assert made.keys() == kept.keys()
    for part in made:
        # write it anew, see permafrost/plan/installed.py
        assert made[part] == kept[part], part


@pytest.mark.parametrize("dataset", ["eurosat", "demo-landcover", "demo-detection"])
def test_planning_and_extraction_say_the_same_of_every_backbone(kept, dataset):
    backbones = Catalogue("backbone", [CONFIG], {})
    entry = read_entry(Catalogue("dataset", [CONFIG], {}).entry(dataset), where=dataset)
    bands, selected = selected_bands(entry, where=dataset)
    statistics = {"mean": 0.0, "std": 1.0, "min": 0.0, "max": 1.0, "p2": 0.0, "p98": 1.0}
    card = OfferedBands(dataset, [b | statistics for b in bands], selected)
    differing = {}
    for name, backbone in backbones.choose(["all"]).items():
        if not kind_of(backbone).pixels:
            continue
        known = kind_of(backbone).known(backbone, name, lambda: Installed(kept))
        own = backbone.get("input") or {}
        planned = said(
            lambda k=known, o=own, n=name: resolve_input(
                input_contract(k.wants, o, EXTRACTION, where=n), card, where=f"{n} on {dataset}"
            )
        )
        extracted = said(lambda b=backbone, n=name: plan_input(b, EXTRACTION, card, where=n))
        if planned != extracted:
            differing[name] = (planned, extracted)
    assert differing == {}


def said(make):
    try:
        return make()
    except PermafrostError as error:
        return str(error)
