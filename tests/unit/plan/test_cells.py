"""The counts of `benchmarks.cells`, over a part of its backbones and datasets."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest
from helpers.project import REPOSITORY
from permafrost.operate.offers import read_offers

BACKBONES = [
    "prithvi-eo-2-300m-tl",
    "terramind-base",
    "olmoearth-v1-2-base",
    "tessera",
    "clay-1-5",
    "dofa-base",
]
DATASETS = [
    "m-forestnet",
    "m-eurosat",
    "m-so2sat",
    "geobench2-caffe",
    "geobench2-kuro-siwo",
    "geobench2-burn-scars",
    "geobench2-benv2",
]
COUNTS = {
    "strict": {"cells": 42, "exact": 17, "out": 18, "subset": 7},
    "authors": {"cells": 42, "exact": 17, "out": 14, "rescaled": 4, "subset": 7},
    "geobench2": {"cells": 42, "exact": 6, "out": 8, "picture": 6, "rescaled": 22},
}


def script():
    path = REPOSITORY / "benchmarks" / "cells.py"
    spec = importlib.util.spec_from_file_location("cells", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("fit", COUNTS)
def test_cells_that_can_be_fed_under_each_policy(fit):
    cells, offers = script(), read_offers(REPOSITORY)
    found = cells.cells(replace(offers, config={**offers.config, "fit": fit}), BACKBONES, DATASETS)
    assert cells.counts(found) == COUNTS[fit]
    assert found["geobench2-kuro-siwo", "tessera"][0] == "out"
    # nobody says the wavelength of a grey channel
    assert found["geobench2-caffe", "dofa-base"][0] == "out"
