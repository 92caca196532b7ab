"""Some backbones fail: the others have their leaderboard, page and archive, marked incomplete."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pyarrow.parquet as pq
import pytest
from helpers.project import Project
from permafrost.statistics.leaderboard.published import TORCHGEO_BENCH

pytestmark = pytest.mark.slow

NAN = """
import torch

class NotANumber(torch.nn.Module):
    def forward(self, images):
        return images.mean((2, 3)) * float("nan")

def build(inputs, **options):
    return NotANumber()
"""
KILLED = """
import os, signal

def build(inputs, **options):
    os.kill(os.getpid(), signal.SIGKILL)
"""
MENDED = """
import torch

class Means(torch.nn.Module):
    def forward(self, images):
        return images.mean((2, 3))

def build(inputs, **options):
    return Means()
"""
PUBLISHED = {
    "dataset": "m-eurosat", "method": "linear", "metric_name": "accuracy", "metric_value": "0.5", "name": "far-net",
    "bands": "rgb", "image_size": "224",
}  # fmt: skip
NAN_SENTENCE = "the features of 16 of 16 samples hold NaN or infinity"
KILLED_SENTENCE = "it ended without an error message: killed, out of memory"


def with_backbones(project: Project, **sources: str) -> None:
    """Add backbones of the user's own, each from the source of its file, and one probe."""
    for name, source in sources.items():
        project.path(f"{name}.py").write_text(source)
        project.config["extra_backbones"][name] = {
            "kind": "entrypoint",
            "entrypoint": f"{name}.py:build",
            "input": {"bands": "rgb", "size": 16, "normalization": "dataset"},
        }
    probes = {"knn": {"kind": "knn", "k": 3}, "linear": None}
    project.configure(backbones=["imagestats", "tiny-network", *sources], probes=probes)


def permafrost(project: Project, *command: str):
    environment = {**os.environ, "PYTHONPATH": str(project.path("workflow"))}
    return subprocess.run(
        [sys.executable, "-m", "permafrost.stages.cli", *command],
        cwd=project.folder,
        env=environment,
        capture_output=True,
        text=True,
    )


def incomplete(project: Project) -> dict | None:
    metadata = pq.read_schema(project.path("results/leaderboard.parquet")).metadata
    return json.loads(metadata[b"permafrost"]).get("incomplete")


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> tuple[Project, str]:
    """A run in which one backbone gives NaN and another is killed, and what it printed to stdout."""
    project = Project(tmp_path_factory.mktemp("incomplete") / "project")
    with_backbones(project, broken=NAN, killed=KILLED)
    project.path("theirs.csv").write_text(
        ",".join(TORCHGEO_BENCH)
        + "\n"
        + ",".join(PUBLISHED.get(name, "") for name in TORCHGEO_BENCH)
        + "\n"
    )
    project.configure(published=["theirs.csv"])
    done = project.snakemake(check=False)
    assert done.returncode == 1
    return project, done.stdout


def test_each_failure_is_named_once_in_a_table_at_the_end(failed):
    project, output = failed
    table = output[output.index("2 jobs failed:") :]
    for backbone, sentence in (("broken", NAN_SENTENCE), ("killed", KILLED_SENTENCE)):
        (line,) = [n for n in table.splitlines() if n.lstrip().startswith(f"{backbone} ")]
        assert line.split()[:3] == [backbone, "tiny-landcover", "extract"] and sentence in line
        assert table.count(f"log: results/logs/extract/tiny-landcover/{backbone}.log") == 1
    assert "Incomplete: 2 of 4 backbones have all their results; 2 results are missing." in table


def test_the_leaderboard_holds_what_succeeded_and_says_what_lacks(failed):
    project, _ = failed
    assert {row["backbone"] for row in project.leaderboard()} == {"imagestats", "tiny-network"}
    with open(project.path("results/leaderboard.csv")) as stream:
        rows = list(csv.DictReader(stream))
    assert rows and all("incomplete_run" in row["gates"].split(";") for row in rows)
    about = incomplete(project)
    assert (about["complete"], about["backbones"]) == (2, 4)
    reasons = {row["backbone"]: row["reason"] for row in about["missing"]}
    assert set(reasons) == {"broken", "killed"}
    assert NAN_SENTENCE in reasons["broken"] and KILLED_SENTENCE in reasons["killed"]
    assert project.path("results/standings.csv").exists()


def test_the_page_shows_what_succeeded_under_a_banner(failed):
    project, _ = failed
    page = project.path("results/report/index.html").read_text()
    assert "Incomplete: 2 of 4 backbones" in page and NAN_SENTENCE in page
    assert "far-net · theirs" in page and project.path("results/published.csv").exists()
    (of_dataset,) = project.path("results/report/datasets").glob("*.html")
    assert "Paired comparisons" in of_dataset.read_text()
    assert list(project.path("results/report/figures").glob("*.svg"))
    with open(project.path("results/report/failures.csv")) as stream:
        assert [row["backbone"] for row in csv.DictReader(stream)] == ["broken", "killed"]


def test_show_says_that_the_leaderboard_is_incomplete(failed):
    done = permafrost(failed[0], "show")
    assert "Incomplete: 2 of 4 backbones" in done.stdout and "tiny-network" in done.stdout


def test_an_archive_of_it_is_marked_incomplete(failed):
    project, _ = failed
    done = permafrost(project, "archive")
    assert done.returncode == 0, done.stderr
    (path,) = project.path("results/archive").glob("*.zip")
    assert path.name.endswith("-incomplete.zip") and path.name in done.stdout
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        readme = archive.read("run/README.md").decode()
        crate = archive.read("ro-crate-metadata.json").decode()
    assert "Incomplete: 2 of 4 backbones" in readme and "Incomplete: 2 of 4 backbones" in crate
    assert {"results/leaderboard.csv", "results/report/index.html"} <= names
    assert "results/scores/tiny-landcover/imagestats/seed0/knn.parquet" in names
    path.unlink()


def test_the_next_run_makes_only_what_lacks_and_the_whole_leaderboard(failed, tmp_path):
    project = failed[0].copied(tmp_path / "project")
    untouched = project.path("results/scores/tiny-landcover/imagestats/seed0/knn.parquet")
    before = untouched.stat().st_mtime_ns
    with_backbones(project, broken=MENDED, killed=MENDED)
    assert project.pending() == {
        "extract": 2,
        "probe_embeddings": 2,
        "bootstrap": 2,
        "compare": 1,
        "aggregate": 1,
        "report": 1,
    }
    project.snakemake()
    assert untouched.stat().st_mtime_ns == before
    assert incomplete(project) is None and len(set(project.config["backbones"])) == 4
    assert {row["backbone"] for row in project.leaderboard()} == set(project.config["backbones"])
    assert not any("incomplete_run" in row["gates"] for row in project.leaderboard())
    assert "Incomplete:" not in project.path("results/report/index.html").read_text()
    assert not project.path("results/report/failures.csv").exists()
    assert project.pending() == {}


def test_without_the_broken_ones_the_leaderboard_is_gathered_again(project):
    project.path("broken.py").write_text(NAN)
    broken = {"kind": "entrypoint", "entrypoint": "broken.py:build", "input": {"bands": "rgb"}}
    project.config["extra_backbones"]["broken"] = broken
    project.configure(backbones=["imagestats", "tiny-network", "broken"])
    assert project.snakemake(check=False).returncode == 1
    assert incomplete(project)
    # the configuration of the run that ended well: its leaderboard was overwritten
    project.configure(backbones=["imagestats", "tiny-network"])
    project.snakemake()
    assert incomplete(project) is None and project.pending() == {}


def test_a_run_without_any_result_says_so_and_leaves_no_leaderboard(fresh_project):
    with_backbones(fresh_project, broken=NAN)
    fresh_project.configure(backbones=["broken"])
    done = fresh_project.snakemake(check=False)
    assert done.returncode == 1
    assert "1 job failed:" in done.stdout and NAN_SENTENCE in done.stdout
    assert "No result of this plan exists yet, so there is no leaderboard" in done.stdout
    assert not fresh_project.path("results/leaderboard.csv").exists()


def test_what_is_interrupted_is_no_failure(project):
    waits = project.path("waits")
    source = "import time\nfrom pathlib import Path\n\n\ndef build(inputs, **options):\n"
    source += f"    Path({str(waits)!r}).touch()\n    time.sleep(600)\n"
    with_backbones(project, slow=source)
    before = project.path("results/leaderboard.csv").read_bytes()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--profile", "local"],
        cwd=project.folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(project.path("workflow"))},
        # a shell lets what it starts in the background ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 300
    while not waits.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=120)[0]
    assert process.returncode != 0
    assert "failed:" not in output and "Incomplete:" not in output
    assert project.path("results/leaderboard.csv").read_bytes() == before
