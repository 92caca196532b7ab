"""`runtime: parts`: extraction by several jobs gives the stores of one; a killed part is made again alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

BACKBONES = ("imagestats", "tiny-network")
# put before every Python that the run starts: one part is killed in the middle of its work
KILLED = """
import os, signal, sys

def kill(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "_flush":
        os.kill(os.getpid(), signal.SIGKILL)

if sys.orig_argv[2:3] == ["extract"] and "parts/tiny-landcover/tiny-network/1-of-3" in " ".join(sys.orig_argv):
    sys.setprofile(kill)
"""


def features(project) -> dict[str, bytes]:
    """Path to bytes of all files of feature stores, without Snakemake's marks."""
    folder = project.path("results/features")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def in_parts(project, parts) -> None:
    project.configure(runtime={**project.config["runtime"], "parts": parts})


def test_the_number_of_parts_changes_no_byte_and_reruns_nothing(project):
    whole = features(project)
    for count, parts in ((3, 3), (2, {"tiny-landcover": 2})):
        in_parts(project, parts)
        assert not {"extract", "extract_part"} & project.pending().keys()
        shutil.rmtree(project.path("results/features"))
        stores = [f"results/features/tiny-landcover/{name}/train.zarr" for name in BACKBONES]
        project.snakemake(*stores)
        assert features(project) == whole
        assert not list(project.path("results/parts").rglob("*.zarr"))
        logs = project.path("results/logs/extract_part/tiny-landcover")
        assert {path.name for path in logs.rglob(f"*-of-{count}.log")} == {
            f"{number}-of-{count}.log" for number in range(count)
        }
    # neither another number nor none
    for parts in (5, 1):
        in_parts(project, parts)
        assert not {"extract", "extract_part"} & project.pending().keys()


def test_parts_of_an_unknown_dataset_are_refused(project):
    in_parts(project, {"tiny-landcovr": 2})
    done = project.snakemake("-n", check=False)
    assert done.returncode
    assert "runtime: parts: dataset 'tiny-landcovr' is not evaluated" in done.stdout + done.stderr
    assert "did you mean 'tiny-landcover'?" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_killed_part_is_named_and_made_again_alone(fresh_project, project):
    in_parts(fresh_project, 3)
    hooks = fresh_project.path("hooks")
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "local"],
        cwd=fresh_project.folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (hooks, fresh_project.path("workflow")))),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode
    said = done.stdout + done.stderr
    assert "extract_part tiny-landcover tiny-network 1-of-3" in said
    assert "results/logs/extract_part/tiny-landcover/tiny-network/1-of-3.log" in said
    there = sorted(
        path.name for path in fresh_project.path("results/parts").glob("*/tiny-network/*")
    )
    assert there == ["0-of-3", "2-of-3"]
    pending = fresh_project.pending()
    assert pending["extract_part"] == 1
    assert pending["extract"] == 1
    fresh_project.snakemake()
    assert features(fresh_project) == features(project)
    table = "results/leaderboard.csv"
    assert fresh_project.path(table).read_bytes() == project.path(table).read_bytes()
