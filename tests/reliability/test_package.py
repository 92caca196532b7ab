"""The package as ``pip install .`` makes it: complete, and usable outside of the clone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import helpers.documents as documents
import helpers.light
import pytest
import yaml
from helpers.environments import INPUT, LIGHT, OWN, STAGES, listed, living, write_lock
from helpers.project import REPOSITORY

# what a wheel holds, by where it lies in a clone
TRACKED = {
    "workflow/permafrost/": "permafrost/",
    "workflow/snakemake_logger_plugin_permafrost/": "snakemake_logger_plugin_permafrost/",
    "workflow/schemas/": "permafrost/plan/schemas/",
    "workflow/rules/": "permafrost/core/shipped/workflow/rules/",
    "workflow/report/": "permafrost/core/shipped/workflow/report/",
    "config/": "permafrost/core/shipped/config/",
    "profiles/": "permafrost/core/shipped/profiles/",
    "envs/": "permafrost/core/shipped/envs/",
    "Snakefile": "permafrost/core/shipped/Snakefile",
}
# bytes of the light package with its dependencies
LARGEST = 500 << 20
EVALUATIONS = {
    "evaluate-detections": ["--truth", "truth.json", "--predictions", "found.json", "--iou-type", "bbox"],
    "evaluate-boxes": ["--truth", "truth.csv", "--predictions", "predictions.csv"],
    "evaluate-panoptic": ["--truth", "truth.json", "--truth-masks", "truth", "--predictions", "found.json",
                          "--prediction-masks", "found"],
}  # fmt: skip
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the sources that git tracks or would track."""
    source = tmp_path_factory.mktemp("source") / "permafrost"
    tracked = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(tracked, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    for name in files.stdout.splitlines():
        if (REPOSITORY / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, source / name, follow_symlinks=False)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs a command of a fresh environment that has the wheel, in a folder without the sources."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    subprocess.run([*install, "--quiet", str(wheel)], check=True, capture_output=True)
    # the dependencies of this environment; a folder on PYTHONPATH does not bring its editable installs
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    (folder / "elsewhere").mkdir()

    def run(*command: str, inside: str = "") -> str:
        done = subprocess.run(
            [str(folder / "venv/bin" / command[0]), *command[1:]],
            cwd=folder / "elsewhere" / inside,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.folder = folder / "elsewhere"
    return run


@pytest.fixture(scope="module")
def light(wheel, tmp_path_factory):
    """Runs a command of an environment that has the wheel and its dependencies as the lock pins them, no extra."""
    folder = tmp_path_factory.mktemp("light")
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run(
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")], check=True
    )
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "venv/bin/python")]

    def add(packages: set[str]) -> None:
        write_lock(folder / "some.lock", packages)
        locked = ["--require-hashes", "--requirement", str(folder / "some.lock")]
        subprocess.run([*install, *locked], check=True)

    add(listed(LIGHT))
    subprocess.run([*install, "--no-deps", str(wheel)], check=True)
    (folder / "elsewhere").mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str, refused: bool = False) -> str:
        program = [str(folder / "venv/bin" / command[0]), *command[1:]]
        done = subprocess.run(program, cwd=run.folder, env=kept, capture_output=True, text=True)
        assert (done.returncode != 0) == refused, done.stdout + done.stderr
        return done.stderr if refused else done.stdout

    run.folder, run.packages, run.add = folder / "elsewhere", folder / "venv/lib", add
    return run


@pytest.mark.slow
def test_the_light_package_evaluates_without_torch_and_snakemake(light):
    size = sum(path.lstat().st_blocks * 512 for path in light.packages.rglob("*"))
    assert size < LARGEST, f"{size >> 20} MiB"
    for module in ("torch", "snakemake", "rasterio"):
        assert "ModuleNotFoundError" in light("python", "-c", f"import {module}", refused=True)
    for command, options in EVALUATIONS.items():
        documents.write_predictions(light.folder, command)
        assert "[" in light("permafrost", command, *options)
    documents.write_predictions(light.folder, "evaluate-raster")
    raster = ["--reference", "reference.tif", "--prediction", "classes.tif"]
    said = light("permafrost", "evaluate-raster", *raster, refused=True)
    assert (
        said.strip().endswith("Remedy: pip install 'permafrost[rasters]'") and said.count("\n") == 1
    )
    said = light("permafrost", "run", refused=True)
    assert said.strip().endswith("Remedy: pip install 'permafrost[workflow]'")
    found = json.loads(light("python", helpers.light.__file__, ""))
    assert 0.7 < float(found["interface"]["evaluate"]) < 0.95
    assert found["interface"]["compare"] == "1" and found["commands"] == {}
    light.add(listed(REPOSITORY / "envs/extras/rasters.in"))
    assert "1600 of 1600 pixels" in light("permafrost", "evaluate-raster", *raster)


def test_the_wheel_says_its_licence_and_needs_what_the_locks_are_made_from(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        described = next(name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(described).decode()
    assert "License-Expression: Apache-2.0" in text
    needed = {extra: set() for extra in re.findall("^Provides-Extra: (.*)", text, re.MULTILINE)}
    for name, extra in re.findall(
        r'^Requires-Dist: ([\w-]+).*?(?:; extra == "(.*)")?$', text, re.M
    ):
        needed.setdefault(extra, set()).add(name)
    assert needed.pop("") == listed(REPOSITORY / "envs/requirements.in")
    rasters = listed(REPOSITORY / "envs/extras/rasters.in")
    assert needed.pop("workflow") == listed(REPOSITORY / "envs/workflow.in") | rasters
    extras = sorted((REPOSITORY / "envs/extras").glob("*.in"))
    assert set(needed) == {file.stem for file in extras}
    assert all(listed(file) <= needed[file.stem] for file in extras)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_holds_every_file_of_the_package_and_the_workflow(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", *TRACKED], cwd=REPOSITORY, capture_output=True, text=True
    ).stdout.split()
    # a link in a clone stands for the files that it leads to
    expected = {
        place + name.removeprefix(top)
        for name in tracked
        for top, place in TRACKED.items()
        if name.startswith(top) and not (REPOSITORY / name).is_symlink()
    }
    assert expected - inside == set()
    assert not [name for name in inside if name.endswith(".pyc")]


@pytest.mark.slow
def test_an_installed_program_scores_predictions_outside_of_the_clone(installed):
    assert installed("permafrost", "--version").strip() == f"permafrost {PROJECT['version']}"
    documents.write_predictions(installed.folder, "evaluate-detections")
    options = ["--truth", "truth.json", "--predictions", "found.json", "--iou-type", "bbox"]
    assert "AP" in installed("permafrost", "evaluate-detections", *options)


@pytest.mark.slow
def test_an_installed_program_shows_its_catalogue_outside_of_a_project(installed):
    assert "eurosat" in installed("permafrost", "list", "datasets")
    assert "terrafm-base" in installed("permafrost", "list", "backbones")
    assert "terrafm-base" in installed("permafrost", "info", "terrafm-base")
    assert "evaluate-boxes" in installed("permafrost", "--help")


@pytest.mark.slow
def test_an_installed_library_validates_and_plans(installed):
    code = (
        "import json, pathlib, permafrost, permafrost.stages.cli;"
        "from permafrost.plan.plan import Plan;"
        "plan = Plan({'backbones': ['s'], 'datasets': ['w'], 'probes': {'knn': {'kind': 'knn'}},"
        "'catalogues': [], 'extra_backbones': {'s': {'kind': 'imagestats'}}, 'extra_datasets':"
        "{'w': {'task': 'classification', 'source': {'kind': 'demo'}}}}, pathlib.Path.cwd());"
        "print(json.dumps([permafrost.__file__, list(plan.evaluations())]))"
    )
    place, evaluations = json.loads(installed("python", "-c", code))
    assert str(REPOSITORY) not in place
    assert evaluations == [["w", "s", "knn", 0]]


@pytest.mark.slow
def test_a_new_project_runs_with_an_installed_workflow_and_in_an_environment_of_its_own(installed):
    installed("permafrost", "init", "mine")
    shipped = installed("python", "-c", "from permafrost.core.home import HOME; print(HOME)")
    write_lock(Path(shipped.strip()) / "envs/small.lock", listed(STAGES))
    project = installed.folder / "mine"
    (project / "own.py").write_text(OWN)
    config = yaml.safe_load((project / "config/config.yaml").read_text())
    config["backbones"] = ["my-backbone", "in-small"]
    config["extra_backbones"] = {
        "in-small": living("small", "pandas") | {"input": {**INPUT, "size": 16}}
    }
    config["probes"] = {"knn": {"kind": "knn"}}
    (project / "config/config.yaml").write_text(yaml.safe_dump(config))
    assert "terrafm-base" in installed("permafrost", "list", "backbones", inside="mine")
    shown = installed("permafrost", "run", inside="mine")
    assert "my-backbone" in shown and "in-small" in shown
    assert "Leaderboard: results/leaderboard.csv" in shown
    assert (project / ".venv-small/permafrost.lock").is_file()
    recorded = json.dumps(json.loads(_current_plan(project)))
    assert str(REPOSITORY) not in recorded
    slurm = ["-m", "snakemake", "--profile", "profiles/slurm", "--dry-run"]
    assert "Nothing to be done" in installed("python", *slurm, inside="mine")
    shutil.rmtree(project / ".venv-small")


def _current_plan(project) -> str:
    plans = project / "results/plans"
    return (plans / f"{(plans / 'current').read_text().strip()}.json").read_text()


@pytest.mark.slow
def test_jobs_of_an_installed_library_have_the_fingerprints_of_a_clones(installed):
    code = (
        "from permafrost.plan.sources import code_hash; from permafrost.plan.grid import LABELS;"
        "from permafrost.probes.kinds import KINDS; print({n: code_hash(n) for n in (*LABELS, *KINDS)})"
    )
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert installed("python", "-c", code) == here.stdout


def test_licence_and_version_are_the_same_everywhere():
    import permafrost

    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"] == permafrost.__version__
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    licence = (REPOSITORY / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in licence and "END OF TERMS AND CONDITIONS" in licence
