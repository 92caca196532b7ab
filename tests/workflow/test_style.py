"""The workflow's own form: formatted, linted, and reported on by Snakemake's tools."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = ["Snakefile", *map(str, sorted(Path(ROOT / "workflow/rules").glob("*.smk")))]


def run(*command: str, cwd: Path = ROOT):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_python_is_linted_and_formatted():
    for command in (["check"], ["format", "--check"]):
        done = run(
            sys.executable, "-m", "ruff", *command, "workflow", "tests", "benchmarks", "config"
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_formatted():
    done = run(str(Path(sys.executable).with_name("snakefmt")), "--check", *RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_tracked_file_names_a_machine_or_a_registry():
    listed = run("git", "ls-files").stdout.split()
    own = ("/root/", "/work/", "/simple/", "--index-url")
    guilty = [
        (name, mark)
        for name in listed
        if (ROOT / name).is_file() and name != "tests/workflow/test_style.py"
        for mark in own
        if mark in (ROOT / name).read_text(errors="ignore")
    ]
    assert guilty == []


def test_snakemakes_own_report_holds_the_leaderboard_and_the_figures(project):
    project.snakemake("--report", "results/snakemake.zip")
    import zipfile

    with zipfile.ZipFile(project.path("results/snakemake.zip")) as archive:
        names = "\n".join(archive.namelist())
    assert "leaderboard.csv" in names and "dotplot__tiny-landcover.svg" in names
