"""What a backbone loads before it runs: start-up is a cost that thousands of jobs pay."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (
            "digest input.contract input.matching input.scaling outputs.pooling kinds",
            "torch timm torchgeo numpy zarr",
        ),
        (
            "imagestats rcf entrypoint weights.checkpoint",
            "timm torchgeo torchvision sklearn pandas",
        ),
        ("timm_models", "torchgeo sklearn pandas"),
    ],
)
def test_a_kind_loads_no_library_that_it_does_not_use(modules, heavy):
    loads = "\n".join(f"import permafrost.backbones.{module}" for module in modules.split())
    code = f"{loads}\nimport sys\nprint(*(set({heavy.split()}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
