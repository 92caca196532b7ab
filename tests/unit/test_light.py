"""What needs no library of the pipeline runs without them; what needs one says how it is installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import helpers.light
import permafrost
import pytest
from helpers.environments import LIGHT, listed, with_needed
from packaging.utils import canonicalize_name
from permafrost.core.extras import LIBRARIES

PACKAGE = Path(permafrost.__file__).parent
# imported by name where somebody has it, or in an environment of its own, with words of its own
_ELSEWHERE = {"mlflow", "terratorch", "wandb"}
# rooms that build and run models; of others only the modules that are named here
_PIPELINE = {"backbones", "features", "probes"}
_HEAVY = {"permafrost.evaluators.raster.modules"}


def modules_of(packages: set[str]) -> tuple[set[str], set[str]]:
    """Names of the top modules that these packages bring, and of all others of this environment."""
    inside, outside = set(), set()
    for module, names in packages_distributions().items():
        (inside if packages & {canonicalize_name(name) for name in names} else outside).add(module)
    return inside, outside - inside - {"permafrost"}


@pytest.fixture(scope="module")
def said():
    """What `helpers.light` says where no module of the pipeline's is found."""
    _, hidden = modules_of(with_needed(listed(LIGHT)))
    assert {"torch", "snakemake", "rasterio", "faiss", "matplotlib"} < hidden
    command = [sys.executable, helpers.light.__file__, ",".join(sorted(hidden))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def imported_at_run_time(tree: ast.Module):
    """All nodes but those that only type checkers read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    return ast.walk(tree)


def test_every_library_that_an_extra_brings_is_in_the_table():
    light, _ = modules_of(with_needed(listed(LIGHT)))
    used = set()
    for path in PACKAGE.rglob("*.py"):
        for node in imported_at_run_time(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                used |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                used.add(node.module.partition(".")[0])
    used -= {*sys.stdlib_module_names, "permafrost", *light, *_ELSEWHERE}
    # named by a text there
    used |= {"kornia", "segmentation_models_pytorch"}
    tabled = [name for names in LIBRARIES.values() for name in names]
    assert sorted(used) == sorted(tabled)


def test_modules_of_evaluators_and_interface_need_no_library_of_the_pipeline(said):
    wrong = {n: e for n, e in said["imported"].items() if n.split(".")[1] not in _PIPELINE}
    assert wrong.keys() == _HEAVY and len(said["imported"]) > 50
    assert all(text.endswith("pip install 'permafrost[workflow]'") for text in wrong.values())


def test_the_interface_computes_or_says_what_to_install(said):
    needs = {"KNN": "cpu", "extract": "workflow", "Plot": "workflow"}
    for name, extra in needs.items():
        assert said["interface"].pop(name).endswith(f"pip install 'permafrost[{extra}]'")
    assert said["interface"].pop("Results").endswith("run snakemake, which records it")
    assert said["interface"].pop("detection") == "COCOeval"
    assert all(0 <= float(number) <= 1 for number in said["interface"].values())


def test_every_command_explains_itself(said):
    assert said["commands"] == {}
