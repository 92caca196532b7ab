"""Locks of environments for tests: packages of the main lock, with its hashes."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from helpers.project import REPOSITORY

STAGES = REPOSITORY / "envs/backbone-stages.in"


def listed(file: Path) -> set[str]:
    """Names of the packages in a file of requirements."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return {canonicalize_name(Requirement(line).name) for line in lines if line}


def write_lock(path: Path, packages: set[str]) -> None:
    """The lock of these packages and all that they need, as far as the main environment has it installed."""
    entries = re.split(r"^(?=\S)", (REPOSITORY / "envs/cpu.lock").read_text(), flags=re.MULTILINE)
    known = {canonicalize_name(entry.partition("==")[0]): entry for entry in entries if entry}
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
    path.write_text("".join(known[name] for name in sorted(wanted)))


def _of_extras(requirement: Requirement) -> set[str]:
    needed = map(Requirement, requires(requirement.name) or []) if requirement.extras else []
    return {
        canonicalize_name(one.name)
        for one in needed
        if one.marker is not None
        and any(one.marker.evaluate({"extra": extra}) for extra in requirement.extras)
    }
