"""Where results and the shared cache may lie, checked while planning."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from permafrost.core.home import HOME
from permafrost.plan.folders import check_folders


@pytest.fixture
def refused(tmp_path):
    """The mistakes that a configuration has in `root`."""
    root = tmp_path / "above" / "project"
    for name in ("config", "data", "runs"):
        (root / name).mkdir(parents=True)

    def check(results="results", data="data", cache=None) -> list[str]:
        found: list[str] = []
        mistakes = SimpleNamespace(add=lambda error: found.append(str(error)))
        config = {"results": results, "data": data, "runtime": {"cache": cache}}
        check_folders(config, root, "config.yaml", mistakes)
        return found

    check.root = root
    return check


@pytest.mark.parametrize(
    "results",
    ["config", "Workflow", ".git", ".snakemake", "data", "data/x", "envs", "profiles", ".", "", "./config",
     "results/../config", "..", "../..", "../project", "../project/config/x", "r{x}", "/tmp/r{x}",
     "/tmp/" + "a" * 256, "/", "*"],
)  # fmt: skip
def test_results_lie_in_a_folder_of_their_own(refused, results):
    (line,) = refused(results)
    assert line.startswith("config.yaml: results: ") and "Remedy" in line


@pytest.mark.parametrize(
    "results",
    ["results", "results/mine", "./out", "../beside", "/tmp/elsewhere", "/tmp/odd (name)'s"],
)
def test_results_may_lie_elsewhere(refused, results):
    assert refused(results) == []


def test_absolute_paths_and_links_into_the_project_or_the_workflow_count(refused, tmp_path):
    root = refused.root
    assert refused(str(root)) and refused(str(root.parent)) and refused(str(root / "config"))
    assert refused(str(HOME / "config/x")) and refused(str(HOME / "workflow"))
    (root / "linked").symlink_to(root / "config")
    assert "which the workflow uses" in refused("linked/x")[0]
    (root / "far").symlink_to(tmp_path / "scratch")
    assert refused("far") == [] and refused(str(root / "runs/one")) == []


def test_results_do_not_hold_the_data(refused):
    assert "data folder" in refused("out", data="out")[0]
    assert "data folder" in refused("out", data="out/data")[0]
    assert refused("results", data=".") == []


@pytest.mark.parametrize(
    "cache", ["results", "results/cache", ".", "..", "config/cache", "data", ".git", "c{x}"]
)
def test_a_cache_collides_with_nothing(refused, cache):
    (line,) = refused(cache=cache)
    assert line.startswith("config.yaml: runtime.cache: ")


def test_a_cache_of_its_own_is_taken(refused):
    assert refused(cache="../shared") == refused(cache="~/.cache/x") == []
