"""Backbones of kind terratorch against TerraTorch called directly, in the environment that it is locked in."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def comparisons() -> list[dict]:
    ready = in_environment(
        "python", "-c", "import importlib.util as u; assert u.find_spec('terratorch')"
    )
    if ready.returncode:
        pytest.skip(f"the environment terratorch cannot be installed: {ready.stderr[-300:]}")
    done = in_environment("python", "tests/parity/terratorch_equality.py")
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.slow
def test_features_and_maps_are_terratorchs_own_bit_for_bit(comparisons):
    assert len(comparisons) >= 20
    assert [one for one in comparisons if not (one["features"] and one["maps"])] == []


@pytest.mark.slow
def test_place_and_dates_reach_the_models_that_take_them(comparisons):
    told = {one["case"]: one["told_matters"] for one in comparisons if "told_matters" in one}
    assert told == {"prithvi_eo_v2_tiny_tl": True, "clay_v1_5": True}


@pytest.mark.slow
def test_absent_bands_are_left_out_and_recorded(comparisons):
    (notes,) = [
        one["notes"] for one in comparisons if one["case"] == "terramind_v1_tiny of five bands"
    ]
    assert notes["modalities"] == {"S2L2A": ["B02", "B03", "B04", "B8A"], "S1RTC": ["VH"]}
    assert "B01" in notes["left_out"]["S2L2A"]
