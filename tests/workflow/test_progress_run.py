"""What a whole run shows: lines in a file, one view on a terminal, Snakemake's own output where it is asked for."""

from __future__ import annotations

import os
import re
import sys

import pytest
from helpers.project import Project
from helpers.terminal import on_terminal, seen

pytestmark = pytest.mark.slow

FAILED = (
    "Error in rule extract tiny-landcover broken: backbone broken: broken.py:build: the function failed: "
    "ValueError: no such model, log: results/logs/extract/tiny-landcover/broken.log"
)
PRINTED_BY_A_JOB = "tiny-landcover | imagestats | knn: accuracy"
TABLE = "1 job failed:"


@pytest.fixture
def broken(fresh_project) -> Project:
    """A project with a backbone that cannot be built."""
    project = fresh_project
    text = "def build(inputs, **options):\n    raise ValueError('no such model')\n"
    project.path("broken.py").write_text(text)
    project.config["extra_backbones"]["broken"] = {
        "kind": "entrypoint",
        "entrypoint": "broken.py:build",
        "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
    }
    project.configure(backbones=["imagestats", "broken"], probes={"knn": {"kind": "knn"}})
    return project


def log_of(project: Project) -> str:
    """What the last run has left in Snakemake's own log."""
    return max(project.path(".snakemake/log").glob("*.log")).read_text(errors="replace")


def test_in_a_file_lines_say_how_far_it_is_and_verbose_says_all(broken):
    done = broken.snakemake(check=False)
    lines = [re.sub(r" in [\d.]+ s", " in T", line) for line in done.stderr.splitlines()]
    assert done.returncode == 1 and FAILED in lines
    first = next(n for n in lines if n.startswith("1 of 10 jobs done in T"))
    assert first.endswith(": prepare 1/1")
    assert lines[-1] == "4 of 10 jobs done in T, 1 failed, 5 not run"
    assert PRINTED_BY_A_JOB not in done.stdout + done.stderr
    # what jobs print and what Snakemake says of them
    assert PRINTED_BY_A_JOB in log_of(broken) and "rule extract:" in log_of(broken)
    # what is run at the end prints again
    assert done.stdout.lstrip().startswith(TABLE)
    loud = broken.snakemake("--verbose", check=False)
    assert "rule extract:" in loud.stderr and "not run" not in loud.stderr
    assert "permafrost extract: error: " in loud.stdout


def test_a_terminal_shows_one_view_with_failures_above_it(broken):
    environment = {**os.environ, "PYTHONPATH": str(broken.path("workflow"))}
    environment |= {"TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
    for options in ([], ["--profile", "local"]):
        command = [sys.executable, "-m", "snakemake", *options]
        status, written = on_terminal(command, cwd=broken.folder, env=environment)
        text = seen(written)
        assert status == 1 and text.count(FAILED) == 1
        frames = re.findall(r"^(\d+) of \d+ jobs done in .*", text, flags=re.MULTILINE)
        assert len(frames) > 1 and [int(n) for n in frames] == sorted(int(n) for n in frames)
        last = text[text.rindex("running  failed") :]
        assert re.search(r"^extract .* [01]/[12] +1$", last, flags=re.MULTILINE)
        assert "1 failed, 5 not run" in last and last.index("not run") < last.index(TABLE)
        assert PRINTED_BY_A_JOB not in text
        if not options:
            assert re.search(r"jobs done in .*, about [\d.]+ (s|min) left", text)


def test_a_dry_run_shows_snakemakes_table_of_jobs_and_each_with_its_reason(broken):
    done = broken.snakemake("-n")
    assert re.search(r"^extract +2$", done.stdout, flags=re.MULTILINE)
    assert "extract tiny-landcover broken (Missing output files)" in done.stdout.splitlines()
