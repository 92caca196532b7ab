"""Locks of environments for tests: packages of the main lock, with its hashes."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.project import REPOSITORY, Project

STAGES = REPOSITORY / "envs/backbone-stages.in"
#: what `pip install permafrost` brings, without an extra
LIGHT = REPOSITORY / "envs/requirements.in"
#: own.py of a project
OWN = """
import importlib.util
import sys

from torch import nn


def build(inputs, *, home, lacks):
    assert sys.prefix.endswith(home), sys.prefix
    assert importlib.util.find_spec(lacks) is None, f"{lacks} is here"
    return nn.Sequential(nn.Conv2d(len(inputs), 8, 4, stride=4), nn.ReLU())
"""
INPUT = {"bands": "rgb", "size": 32, "normalization": "dataset"}


def living(name: str, lacks: str) -> dict:
    """An entry point that fails outside of the environment `name`."""
    return {
        "kind": "entrypoint",
        "entrypoint": "own.py:build",
        "options": {"home": f".venv-{name}", "lacks": lacks},
        "input": INPUT,
        "environment": name,
    }


def listed(file: Path) -> set[str]:
    """Names of the packages in a file of requirements."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return {canonicalize_name(Requirement(line).name) for line in lines if line}


def write_lock(path: Path, packages: set[str]) -> None:
    """The lock of these packages and all that they need, as far as the main environment has it installed."""
    entries = re.split(r"^(?=\S)", (REPOSITORY / "envs/cpu.lock").read_text(), flags=re.MULTILINE)
    known = {canonicalize_name(entry.partition("==")[0]): entry for entry in entries if entry}
    path.write_text("".join(known[name] for name in sorted(with_needed(packages))))


def with_needed(packages: set[str]) -> set[str]:
    """These packages and all that they need, as far as the main environment has it installed."""
    wanted, pending = set(), set(packages)
    while pending:
        name = pending.pop()
        wanted.add(name)
        needed = map(Requirement, requires(name) or [])
        here = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
        for one in here:
            pending |= {canonicalize_name(one.name)} - wanted
            # torch takes some of its libraries as extras of one package
            pending |= _of_extras(one) - wanted
    return wanted


def _of_extras(requirement: Requirement) -> set[str]:
    needed = map(Requirement, requires(requirement.name) or []) if requirement.extras else []
    return {
        canonicalize_name(one.name)
        for one in needed
        if one.marker is not None
        and any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras)
    }


def add_small_and_broken(project: Project) -> None:
    """Give the project own.py and the environments small, and broken, which cannot be installed."""
    project.path("own.py").write_text(OWN)
    write_lock(project.path("envs/small.lock"), listed(STAGES))
    lock = f"tqdm==4.67.1 --hash=sha256:{'0' * 64}\n"
    project.path("envs/broken.lock").write_text(lock)
