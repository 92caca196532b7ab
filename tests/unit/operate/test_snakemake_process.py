"""Errors of the Snakefile, and parameters of rules: no option of the run that the command does not take."""

import os
import re
import time
from pathlib import Path

import pytest
from permafrost.core.errors import PermafrostError
from permafrost.operate.snakemake_process import _began, _remove_left_folders, plain_errors

RULES = Path(__file__).resolve().parents[3] / "workflow/rules"
OPTIONS = {"plan", "results", "data", "device"}


def test_an_error_ends_snakemake_with_its_sentence_alone(capsys):
    with pytest.raises(SystemExit) as ended, plain_errors():
        raise PermafrostError("no such size", where="config.yaml: size", remedy="give one")
    assert ended.value.code == 1
    said = capsys.readouterr()
    assert said.err == "permafrost: error: config.yaml: size: no such size. Remedy: give one\n"
    assert said.out == ""
    # every check that Snakemake's own files make stands inside of it
    text = (RULES / "common.smk").read_text()
    assert text.count("with plain_errors():") == 3 and "WorkflowError(" not in text


@pytest.fixture
def left(tmp_path, monkeypatch):
    """Makes a folder as a run with this process and start leaves it, two hours ago."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before, own, this = time.time() - 7200, os.getuid(), os.uname().nodename

    def make(run: str, *, user: object = own, on: str = this, age: float = before) -> Path:
        folder = tmp_path / f"permafrost-{user}-{run}-{on}"
        (folder / "workers").mkdir(mode=0o700, parents=True)
        (folder / "workers/socket").touch()
        os.utime(folder, (age, age))
        return folder

    return make


def test_folders_of_killed_runs_are_removed_and_no_others(left, tmp_path, monkeypatch):
    user, here = os.getuid(), os.getpid()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    gone = [left(f"{here}-1"), left("999999999-5")]
    (gone[0] / "workers/linked").symlink_to(elsewhere)
    of_another = left("999999999-5", user=user + 1)
    kept = [
        left("999999998-5", age=time.time()),
        left(f"{here}-{_began(str(here))}"),
        left("999999999-5", on="another-machine"),
        left("extract-5"),
        left("5", user="extract"),
        of_another,
    ]
    linked = tmp_path / kept[0].name.replace("999999998", "999999996")
    linked.symlink_to(elsewhere)
    os.utime(linked, (0, 0), follow_symlinks=False)
    os.utime(elsewhere, (0, 0))
    _remove_left_folders()
    assert not any(folder.exists() for folder in gone)
    assert all((folder / "workers/socket").exists() for folder in kept)
    assert linked.is_symlink() and (elsewhere / "kept").is_dir()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    _remove_left_folders()  # named like a folder of that user, but of another one
    assert (of_another / "workers/socket").exists()


def _bodies() -> dict[str, str]:
    """Every rule that writes its own parameters, and its text."""
    found = {}
    for file in sorted(RULES.glob("*.smk")):
        for text in re.split(r"(?m)^(?=(?:use )?rule )", file.read_text())[1:]:
            if "of_run(" in text:
                found[text.partition(":")[0]] = text
    return found


@pytest.mark.parametrize("rule", _bodies())
def test_rules_name_the_options_of_the_run_that_their_commands_have(rule):
    bodies = _bodies()
    named = set(re.findall(r'"(\w+)"', re.search(r"of_run\(([^)]*)\)", bodies[rule])[1]))
    # a rule made of another one has its command
    origin = re.match(r"use rule (\w+)", rule)
    command = bodies[f"rule {origin[1]}"] if origin else bodies[rule]
    assert named == {option for option in OPTIONS if f"{{params.{option}" in command}


def test_there_are_rules_to_look_at():
    assert len(_bodies()) > 10
