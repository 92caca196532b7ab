"""``--threads`` of every command, or one thread of a job without it, is set before NumPy or torch is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# each command with the arguments that its parser requires, up to where it first imports NumPy or torch; a job without
# this option up to where it looks for its plan
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

def reach(*_):
    raise Reached

check_sources = cli._check_sources
LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
sys.meta_path.insert(0, Watch())
reached = {}
for number, command in enumerate([*cli.COMMANDS, *KINDS]):
    stage = "probe" if command in KINDS else command.replace("-", "_")
    parser = argparse.ArgumentParser()
    own = [KINDS[command]] if command in KINDS else []
    importlib.import_module(f"permafrost.stages.{stage}").add_arguments(parser, *own)
    actions = {action.dest: action for action in parser._actions}
    if not actions.keys() & {"threads", "job"}:
        continue
    takes = "threads" in actions
    cli._check_sources = check_sources if takes else reach
    values = {"spec": "{}", "code": code_hash(command, {}), "threads": str(number + 2)}
    argv = [command]
    one_of = [group._group_actions[0].dest for group in parser._mutually_exclusive_groups if group.required]
    wanted = {"threads", "spec", "code", *(name for name in one_of if name != "job")}
    for name, action in actions.items():
        if action.required or name in wanted:
            count = action.nargs if isinstance(action.nargs, int) else 1
            given = [values.get(name, "none")] * count
            argv += [*action.option_strings[:1], *given]
    try:
        cli.main(argv)
        seen = "neither was imported"
    except Reached:
        seen = [os.environ.get(library) for library in LIBRARIES]
    reached[command] = [[str(number + 2) if takes else "1"] * 3, seen]
    for library in LIBRARIES:
        os.environ.pop(library, None)
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


def test_all_commands_that_compute_take_threads_or_have_one(reached):
    from permafrost.probes.kinds import KINDS

    with_one = {name for name, (wanted, _) in reached.items() if wanted[0] == "1"}
    assert with_one == {"prepare", "bootstrap", "compare", "aggregate", "report"}
    assert (
        set(KINDS)
        | {
            "extract",
            "extract_harder",
            "resplit",
            "select",
            "derive",
            "views",
            "profile",
            "measure",
        }
        | {"similarity", "check"}
        == set(reached) - with_one
    )
