"""Jobs on a GPU are counted: one at a time by the local profile, and none where there is no GPU."""

from __future__ import annotations

import re

import pytest
from project import TINY, Project


@pytest.fixture
def several(tmp_path) -> Project:
    """A project of three backbones that load quickly, for any device."""
    project = Project(tmp_path / "several")
    project.configure(
        backbones=["imagestats", "one", "two"],
        extra_backbones={
            name: {
                "kind": "rcf",
                "features": 16,
                "seed": seed,
                "input": {"bands": "rgb", "size": 32},
            }
            for seed, name in enumerate(("one", "two"))
        },
        runtime=TINY["runtime"] | {"device": "auto"},
    )
    return project


def with_gpu(project: Project) -> Project:
    """As on a machine with a GPU, so far as planning can see."""
    file = "workflow/permafrost/core/device.py"
    project.edit(file, "/dev/nvidiactl", "/dev/null")
    project.edit(file, "gpu_is_visible() and torch_is_built_for_gpu()", "gpu_is_visible()")
    return project


def most_at_once(output: str, rule: str) -> int:
    """How many jobs of a rule were open at the same time, by what Snakemake printed."""
    running = most = 0
    for line in output.splitlines():
        if line.startswith(f"rule {rule}:"):
            running += 1
            most = max(most, running)
        elif re.match(rf"Finished jobid: \d+ \(Rule: {rule}\)", line):
            running -= 1
    return most


def extracted(project: Project, *arguments: str) -> int:
    done = project.snakemake("features", "--cores", "8", "--quiet", "host", *arguments)
    return most_at_once(done.stdout + done.stderr, "extract")


def test_only_one_job_at_a_time_is_on_the_gpu_unless_more_are_allowed(several):
    with_gpu(several)
    assert extracted(several) == 1
    assert extracted(several, "--resources", "gpu=2", "--forcerun", "extract") == 2


def test_without_a_gpu_nothing_is_limited(several):
    assert extracted(several) == 3


def test_on_a_cluster_the_gpu_of_the_login_node_says_nothing(several):
    with_gpu(several)
    several.configure(measures=None)
    done = several.snakemake("features", "-n", "--quiet", "host")
    assert len(re.findall(r"resources: .*\bgpu=1", done.stdout + done.stderr)) == 3
