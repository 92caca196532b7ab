"""The simulations behind the documentation run, at a small size, and their pages have room for their tables."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks" / "simulations"
NAMES = sorted(file.stem for file in FOLDER.glob("[!_]*.py"))


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.simulations", *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.simulations.__main__")


@pytest.mark.parametrize("name", NAMES)
def test_small_simulation_makes_a_table(name):
    done = simulate(name, "--small")
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) > 2 and len({row.count("|") for row in rows}) == 1, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_page_has_room_for_the_table(name, runner):
    module = importlib.import_module(f"benchmarks.simulations.{name}")
    page = (ROOT / module.DOCUMENT).read_text()
    assert "| a |" in runner.written(page, name, "| a |")
    assert 0 < module.SMALL <= module.FULL


def test_runner_finds_the_simulations_and_refuses_others(runner):
    assert runner.names() == NAMES
    done = simulate("nothing-of-that-name")
    assert done.returncode == 2 and "no simulation is called" in done.stderr


def test_table_takes_the_place_of_the_last_one(runner):
    page = "a\n<!-- simulation x -->\n\n| old |\n\n<!-- end of simulation x -->\nb\n"
    new = runner.written(page, "x", "| new |\n")
    assert "old" not in new and new == page.replace("old", "new")
    with pytest.raises(ValueError, match="simulation y"):
        runner.written(page, "y", "| new |")
