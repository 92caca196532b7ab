"""`runtime: parts`: several jobs prepare and extract what one would; a killed part is made again alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

RULES = {"prepare", "prepare_part", "extract", "extract_part"}
# put before every Python that the run starts: one part is killed in the middle of its work
KILLED = """
import os, signal, sys

def kill(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "{function}":
        os.kill(os.getpid(), signal.SIGKILL)

if sys.orig_argv[2:3] == ["{command}"] and "parts/tiny-landcover/{part}" in " ".join(sys.orig_argv):
    sys.setprofile(kill)
"""


def of(backbone: str) -> str:
    return f"results/features/tiny-landcover/{backbone}/train.zarr"


def in_parts(project, parts, **runtime) -> None:
    project.configure(runtime={**project.config["runtime"], "parts": parts, **runtime})


def numbers(folder, count: int) -> set[str]:
    return {path.name for path in folder.glob(f"*-of-{count}.log")}


def test_the_number_of_parts_changes_no_byte_and_reruns_nothing(project):
    whole = project.stores()
    assert any(path.startswith("images/tiny-landcover/train.zarr/images/c/") for path in whole)
    in_parts(project, 3)
    assert not RULES & project.pending().keys()
    shutil.rmtree(project.path("results/images/tiny-landcover"))
    shutil.rmtree(project.path(of("tiny-network")).parent)
    project.snakemake(of("tiny-network"))
    assert project.stores() == whole
    assert not list(project.path("results/parts").rglob("*.zarr"))
    for rule in ("prepare_part/tiny-landcover", "extract_part/tiny-landcover/tiny-network"):
        made = numbers(project.path("results/logs") / rule, 3)
        assert made == {f"{number}-of-3.log" for number in range(3)}
    # neither another number, for all datasets or this one, nor none
    for parts in (5, {"tiny-landcover": 2}, 1):
        in_parts(project, parts)
        assert not RULES & project.pending().keys()
    # nor when the image stores are gone: jobs that miss them make them by themselves
    for store in project.path("results/images/tiny-landcover").glob("*.zarr"):
        shutil.rmtree(store)
    in_parts(project, 4)
    assert not RULES & project.pending().keys()
    shutil.rmtree(project.path("results/features"))
    in_parts(project, {"tiny-landcover": 4})
    assert project.pending("--", of("imagestats"))["extract_part"] == 4
    project.snakemake(of("imagestats"))
    assert not numbers(project.path("results/logs/prepare_part/tiny-landcover"), 4)
    found = project.stores()
    assert [path for path in found if found[path] != whole[path]] == []
    assert any(path.startswith("images/tiny-landcover/train.zarr/images/c/") for path in found)


def test_parts_of_an_unknown_dataset_are_refused(project):
    in_parts(project, {"tiny-landcovr": 2})
    done = project.snakemake("-n", check=False)
    assert done.returncode
    assert "runtime: parts: the run has no dataset 'tiny-landcovr'" in done.stdout + done.stderr
    assert "did you mean 'tiny-landcover'?" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "function", "names", "number"),
    # so small images are all in the first chunk, which the first part decodes
    [("prepare", "_remember", [], 0), ("extract", "_flush", ["imagestats"], 1)],
)
def test_a_killed_part_is_named_and_made_again_alone(project, rule, function, names, number):
    whole = project.stores()
    wanted = of(*names) if names else "results/images/tiny-landcover/card.json"
    shutil.rmtree(project.path(wanted).parent)
    # hooks are put before a process that starts, not before a fork
    in_parts(project, 3, light_jobs="process")
    hooks = project.path("hooks")
    hooks.mkdir()
    part = "/".join([*names, f"{number}-of-3"])
    (hooks / "sitecustomize.py").write_text(
        KILLED.format(function=function, command=rule, part=part)
    )
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "local", wanted],
        cwd=project.folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (hooks, project.path("workflow")))),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode
    said = done.stdout + done.stderr
    assert f"{rule}_part tiny-landcover {part.replace('/', ' ')}" in said
    assert f"results/logs/{rule}_part/tiny-landcover/{part}.log" in said
    folder = project.path("results/parts").joinpath("tiny-landcover", *names)
    left = [f"{other}-of-3" for other in range(3) if other != number]
    assert sorted(path.name for path in folder.glob("*-of-*")) == left
    assert project.pending("--", wanted) == {f"{rule}_part": 1, rule: 1}
    project.snakemake(wanted)
    assert project.stores() == whole
