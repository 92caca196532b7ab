"""Jobs on a GPU are counted: one at a time by the local profile, and none where there is no GPU."""

from __future__ import annotations

import re

import pytest
from helpers.project import TINY, Project


@pytest.fixture
def several(tmp_path) -> Project:
    """A project of three backbones whose extraction leaves empty folders, on a machine with a GPU."""
    project = Project(tmp_path / "several")
    rcf = {"kind": "rcf", "features": 16, "input": {"bands": "rgb", "size": 32}}
    project.configure(
        backbones=["imagestats", "one", "two"],
        extra_backbones={name: {**rcf, "seed": seed} for seed, name in enumerate(("one", "two"))},
        runtime=TINY["runtime"] | {"device": "auto"},
    )
    project.edit(
        "workflow/rules/extract.smk", "{params.program} extract", "mkdir -p {output}; true"
    )
    # Snakemake lists what jobs request only without a message
    for file in ("extract", "probes"):
        rules = project.path(f"workflow/rules/{file}.smk")
        rules.write_text(re.sub(r"    message:\n.*\n", "", rules.read_text()))
    # so far as planning can see
    file = "workflow/permafrost/core/device.py"
    project.edit(file, "/dev/nvidiactl", "/dev/null")
    project.edit(file, "gpu_is_visible() and torch_is_built_for_gpu()", "gpu_is_visible()")
    return project


def most_at_once(project: Project, *arguments: str) -> int:
    """How many jobs Snakemake started together when all features were asked for, which it says with --verbose."""
    done = project.snakemake("features", "--cores", "8", "--verbose", *arguments)
    started = re.findall(r"^Execute (\d+) jobs", done.stdout + done.stderr, re.MULTILINE)
    return max(map(int, started))


@pytest.mark.slow
def test_one_job_at_a_time_is_on_the_gpu_unless_more_are_allowed(several):
    assert most_at_once(several) == 1
    again = ("--forcerun", "extract")
    assert most_at_once(several, "--resources", "gpu=2", *again) == 2
    # without a GPU, nothing is limited
    several.edit("workflow/permafrost/core/device.py", "/dev/null", "/dev/no-driver")
    assert most_at_once(several, *again) == 3


def test_light_probes_take_a_gpu_only_where_one_is_named(several):
    def told() -> dict[str, set[tuple[str, bool]]]:
        """Of every kind of command the devices, and whether its jobs count as jobs of a GPU."""
        done = several.snakemake("predictions", "-n", "--printshellcmds", "--cores", "2")
        found: dict[str, set] = {}
        for job in re.split(r"^rule ", done.stdout, flags=re.MULTILINE):
            for command, device in re.findall(r"(true|knn|linear) --job .* --device (\S+)", job):
                found.setdefault(command, set()).add((device, "gpu=1" in job))
        return found

    # in this project `true` stands for `extract`
    assert told() == {
        "true": {("auto", True)},
        "knn": {("cpu", False)},
        "linear": {("cpu", False)},
    }
    several.configure(runtime=TINY["runtime"] | {"device": "cuda"})
    assert told() == dict.fromkeys(("true", "knn", "linear"), {("cuda", True)})


def test_an_extraction_takes_cores_that_feed_its_gpu(several):
    def threads() -> set[str]:
        done = several.snakemake("features", "-n", "--printshellcmds", "--cores", "12")
        return set(re.findall(r"true --job .* --threads (\d+)", done.stdout))

    several.configure(runtime={"device": "auto"})
    assert threads() == {"6"}
    several.configure(runtime={"device": "auto", "workers": 3})
    assert threads() == {"3"}
    several.configure(runtime={"device": "cpu"})
    assert threads() == {"2"}
