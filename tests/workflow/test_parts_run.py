"""`runtime: parts`: several jobs prepare and extract what one would; a killed part is made again alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

BACKBONES = ("imagestats", "tiny-network")
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
    for count, parts in ((3, 3), (2, {"tiny-landcover": 2})):
        in_parts(project, parts)
        assert not RULES & project.pending().keys()
        made = [of(name) for name in BACKBONES[: count - 1]]
        shutil.rmtree(project.path("results/images/tiny-landcover"))
        for path in made:
            shutil.rmtree(project.path(path).parent)
        project.snakemake(*made)
        assert project.stores() == whole
        assert not list(project.path("results/parts").rglob("*.zarr"))
        logs = project.path("results/logs")
        every = {f"{number}-of-{count}.log" for number in range(count)}
        assert numbers(logs / "prepare_part/tiny-landcover", count) == every
        for name in BACKBONES[: count - 1]:
            assert numbers(logs / "extract_part/tiny-landcover" / name, count) == every
    # neither another number nor none
    for parts in (5, 1):
        in_parts(project, parts)
        assert not RULES & project.pending().keys()
    # nor when the image stores are gone: jobs that miss them make them by themselves
    for store in project.path("results/images/tiny-landcover").glob("*.zarr"):
        shutil.rmtree(store)
    in_parts(project, 4)
    assert not RULES & project.pending().keys()
    shutil.rmtree(project.path("results/features"))
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
    [("prepare", "_remember", [], 0), ("extract", "_flush", ["tiny-network"], 1)],
)
def test_a_killed_part_is_named_and_made_again_alone(
    fresh_project, project, rule, function, names, number
):
    # hooks are put before a process that starts, not before a fork
    in_parts(fresh_project, 3, light_jobs="process")
    hooks = fresh_project.path("hooks")
    hooks.mkdir()
    part = "/".join([*names, f"{number}-of-3"])
    wanted = of(*names or ["imagestats"])
    (hooks / "sitecustomize.py").write_text(
        KILLED.format(function=function, command=rule, part=part)
    )
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "local", wanted],
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
    assert f"{rule}_part tiny-landcover {part.replace('/', ' ')}" in said
    assert f"results/logs/{rule}_part/tiny-landcover/{part}.log" in said
    folder = fresh_project.path("results/parts").joinpath("tiny-landcover", *names)
    left = [f"{other}-of-3" for other in range(3) if other != number]
    assert sorted(path.name for path in folder.glob("*-of-*")) == left
    pending = fresh_project.pending("--", wanted)
    assert pending[f"{rule}_part"] == 1
    assert pending[rule] == 1
    fresh_project.snakemake(wanted)
    made, whole = fresh_project.stores(), project.stores()
    assert made == {path: whole[path] for path in made} and any("features/" in one for one in made)
