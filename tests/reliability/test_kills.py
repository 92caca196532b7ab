"""The command that kills runs: what it calls wrong, and a few kills of a real run."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.project import Project

PATH = Path(__file__).with_name("kills.py")


@pytest.fixture
def kills():
    spec = importlib.util.spec_from_file_location("kills", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kills"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["kills"]


def fill(results: Path) -> None:
    for name in ("a.parquet", "report/index.html", "logs/a.log", "archive/run.zip"):
        (results / name).parent.mkdir(parents=True, exist_ok=True)
        (results / name).write_text(name)
    with zipfile.ZipFile(results / "archive/run.zip", "w") as archive:
        archive.writestr("results/a.parquet", "a.parquet")
        archive.writestr("run/machine.json", "dated")


@pytest.fixture
def runs(kills, tmp_path):
    """Runs whose undisturbed one has just ended."""
    found = kills.Runs.__new__(kills.Runs)
    found.folder, found.chance = tmp_path, random.Random(0)
    found.temporary, found.results = tmp_path / "tmp", tmp_path / "results"
    found.temporary.mkdir()
    fill(found.results)
    found.expected, found.usual = kills.contents(found.results), set()
    return found


def wrong(kills, runs) -> dict:
    outcome = kills.Outcome(kills.Counter({"group": 2}))
    runs._compare(outcome)
    assert (
        kills.table([outcome])
        .splitlines()[2]
        .startswith("| kill -9 of the whole process group | 2 |")
    )
    return {name: texts for name, texts in outcome.wrong.items() if texts}


def test_logs_and_dates_are_not_compared(kills, runs):
    (runs.results / "logs/a.log").write_text("another")
    with zipfile.ZipFile(runs.results / "archive/run.zip", "w") as archive:
        archive.writestr("results/a.parquet", "a.parquet")
        archive.writestr("run/machine.json", "another date")
    assert wrong(kills, runs) == {}


def test_every_wrong_file_is_named(kills, runs):
    (runs.results / "a.parquet").write_text("half")
    (runs.results / "report/index.html").unlink()
    (runs.results / ".a.parquet.partial-1").touch()
    (runs.temporary / "permafrost-0-1-2").mkdir()
    with zipfile.ZipFile(runs.results / "archive/run.zip", "w") as archive:
        archive.writestr("results/a.parquet", "half")
        archive.writestr("run/machine.json", "dated")
    assert wrong(kills, runs) == {
        "differing": ["a.parquet", "archive/run.zip: results/a.parquet"],
        "missing": ["report/index.html"],
        "extra": [".a.parquet.partial-1"],
        "leftovers": ["permafrost-0-1-2"],
    }


def test_a_process_of_a_run_that_goes_on_is_named_and_ended(kills, runs, monkeypatch):
    monkeypatch.setattr(kills, "_PATIENCE", 0)
    process = subprocess.Popen(["sleep", "600"], env={kills.MARK: str(runs.folder)})
    try:
        until_it_runs = list(runs.processes())
        assert [pid for pid, _ in until_it_runs] == [process.pid]
        (survivor,) = wrong(kills, runs)["survivors"]
        assert survivor.startswith(f"{process.pid} ")
        assert process.wait(60) == -kills.signal.SIGKILL
    finally:
        process.kill()


def small(folder: Path) -> Project:
    """The tiny project with two backbones that load no library of models, and one probe."""
    project = Project(folder)
    twin = {"kind": "imagestats", "input": {"bands": "rgb"}}
    project.configure(
        backbones=["imagestats", "rgb"],
        extra_backbones={"rgb": twin},
        probes={"knn": {"kind": "knn"}},
    )
    return project


@pytest.mark.slow
def test_a_run_that_is_killed_a_few_times_ends_with_the_same_bytes(kills, monkeypatch, capsys):
    monkeypatch.setattr(kills, "Project", small)
    monkeypatch.setattr(sys, "argv", [str(PATH), "--kills", "2", "--seed", "0"])
    status = kills.main()
    said = capsys.readouterr().out
    assert status == 0, said
    assert said.splitlines()[-2].startswith("| all | 2 | ")
