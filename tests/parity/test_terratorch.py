"""Backbones of kind terratorch against TerraTorch called directly, in the environment that it is locked in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml
from helpers.catalogue import catalogue

ROOT = Path(__file__).resolve().parents[2]


def in_environment(*command: str) -> subprocess.CompletedProcess:
    """Run in the environment `terratorch`, which is installed first where it is not yet."""
    kept = {
        key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    kept |= {"PERMAFROST_ENV": "terratorch", "PERMAFROST_VENV": str(ROOT / ".venv-terratorch")}
    return subprocess.run(
        [ROOT / "envs" / "run", *command], env=kept, capture_output=True, text=True, check=False
    )


def said_by(script: str) -> list[dict]:
    """The lines of JSON that a script prints there."""
    ready = in_environment(
        "python", "-c", "import importlib.util as u; assert u.find_spec('terratorch')"
    )
    if ready.returncode:
        pytest.skip(f"the environment terratorch cannot be installed: {ready.stderr[-300:]}")
    done = in_environment("python", f"tests/parity/{script}")
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture(scope="module")
def comparisons() -> list[dict]:
    return said_by("terratorch_equality.py")


@pytest.mark.slow
def test_features_and_maps_are_terratorchs_own_bit_for_bit(comparisons):
    assert len(comparisons) >= 20
    assert [one for one in comparisons if not (one["features"] and one["maps"])] == []


@pytest.mark.slow
def test_place_and_dates_reach_the_models_that_take_them(comparisons):
    told = {one["case"]: one["told_matters"] for one in comparisons if "told_matters" in one}
    assert told == {"prithvi_eo_v2_tiny_tl": True, "clay_v1_5": True}


@pytest.mark.slow
def test_features_do_not_depend_on_neighbours(comparisons):
    beside = [one for one in comparisons if one["case"].startswith("neighbours of ")]
    assert len(beside) == 11 and all(one["features"] for one in beside)


@pytest.mark.slow
def test_absent_bands_are_left_out_and_recorded(comparisons):
    (notes,) = [
        one["notes"] for one in comparisons if one["case"] == "terramind_v1_tiny of five bands"
    ]
    assert notes["modalities"] == {"S2L2A": ["B02", "B03", "B04", "B8A"], "S1RTC": ["VH"]}
    assert "B01" in notes["left_out"]["S2L2A"]


#: number of features, by the beginning of an entry's name
DIMENSIONS = {
    "prithvi-eo-1-100m": 768,
    "prithvi-eo-2-tiny": 192,
    "prithvi-eo-2-100m": 768,
    "prithvi-eo-2-300m": 1024,
    "prithvi-eo-2-600m": 1280,
    "terramind-tiny": 192,
    "terramind-small": 384,
    "terramind-base": 768,
    "terramind-large": 1024,
    "clay-1-5": 1024,
    "terratorch-satlas-swin-t": 768,
    "terratorch-satlas-swin-b": 1024,
    "terratorch-decur-resnet50": 2048,
}
#: of more than 95 million parameters: one image is fed, for its shapes, and not one for each band, which takes minutes
LARGE = ("prithvi-eo-2-300m", "prithvi-eo-2-600m", "terramind-large", "clay-1-5")


@pytest.mark.slow
def test_every_entry_of_the_catalogue_does_what_it_promises():
    """Shapes, layers, pooling; no image sees another; every band counts. See `helpers.catalogue.check_promises`."""
    found = {one.pop("name"): one for one in said_by("terratorch_entries.py")}
    assert {name: one["wrong"] for name, one in found.items() if one["wrong"]} == {}
    entries = catalogue()
    own = [name for name in entries.names(["all"]) if "environment" in entries.written(name)]
    alike = {name.replace("-mi-", "-si-"): name for name in found if "-satlas-swin-" in name}
    assert sorted([*found, *alike]) == sorted(own)
    for name, fed in alike.items():
        assert entries.entry(name)["parameters"] == entries.entry(fed)["parameters"]
    for name, one in found.items():
        (dimension,) = [width for start, width in DIMENSIONS.items() if name.startswith(start)]
        assert one["smaller"] or one["dimension"] == dimension, name
        assert one["every_band"] == (one["smaller"] or not name.startswith(LARGE)), name
    assert sum(one["smaller"] for one in found.values()) == 9


@pytest.mark.slow
def test_the_page_of_what_is_covered_lists_the_registry_that_is_locked(comparisons):
    told = yaml.safe_load((ROOT / "docs" / "coverage.yaml").read_text())["terratorch"]
    (found,) = [one for one in comparisons if one["case"] == "registry"]
    assert (found["version"], found["names"]) == (told["version"], sorted(told["names"]))
