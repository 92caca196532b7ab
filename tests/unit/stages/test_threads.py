"""``--threads`` of every command reaches the linear-algebra libraries before NumPy or torch starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# each command with the arguments that its parser requires, up to where it first imports NumPy or torch
PROGRAM = """
import argparse, importlib, json, os, sys
from permafrost.plan.sources import code_hash
from permafrost.probes.kinds import KINDS
from permafrost.stages import cli

class Reached(BaseException):
    pass

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "torch"):
            raise Reached

LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
sys.meta_path.insert(0, Watch())
reached = {}
for number, command in enumerate([*cli.COMMANDS, *KINDS]):
    stage = "probe" if command in KINDS else command.replace("-", "_")
    parser = argparse.ArgumentParser()
    own = [KINDS[command]] if command in KINDS else []
    importlib.import_module(f"permafrost.stages.{stage}").add_arguments(parser, *own)
    actions = {action.dest: action for action in parser._actions}
    if "threads" not in actions:
        continue
    values = {"spec": "{}", "code": code_hash(command), "threads": str(number + 2)}
    argv = [command]
    one_of = [group._group_actions[0].dest for group in parser._mutually_exclusive_groups if group.required]
    wanted = {"threads", "spec", "code", *(name for name in one_of if name != "job")}
    for name, action in actions.items():
        if action.required or name in wanted:
            given = [values.get(name, "none")] * (action.nargs or 1)
            argv += [*action.option_strings[:1], *given]
    try:
        cli.main(argv)
        seen = "neither was imported"
    except Reached:
        seen = [os.environ.get(library) for library in LIBRARIES]
    reached[command] = [[str(number + 2)] * 3, seen]
print(json.dumps(reached))
"""


@pytest.fixture(scope="module")
def reached() -> dict[str, list]:
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_threads_are_limited_before_numpy_and_torch_are_imported(reached):
    assert {name: seen for name, (_, seen) in reached.items()} == {
        name: wanted for name, (wanted, _) in reached.items()
    }


def test_all_commands_that_compute_take_threads(reached):
    from permafrost.probes.kinds import KINDS

    assert set(KINDS) | {"extract", "views", "profile", "measure", "similarity", "check"} == set(
        reached
    )
