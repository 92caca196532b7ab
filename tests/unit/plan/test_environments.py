"""Backbones in environments of their own: names, identity, and what their stages import."""

from __future__ import annotations

import copy
import json
import sys

import pytest
from helpers.environments import STAGES, listed
from helpers.plans import CONFIG, fill_root, fingerprints, make_plan
from permafrost.core.environment import check_environment
from permafrost.core.errors import PermafrostError
from permafrost.core.identity import file_digest
from permafrost.plan import environments
from permafrost.plan.sources import _read, stage_modules

STAGES_THERE = ("extract", "extract_harder", "views", "profile", "fine_tune")
DISTRIBUTIONS = {
    "PIL": "pillow",
    "numcodecs": "zarr",
    "annotated_types": "annotated-types",
    "pydantic_core": "pydantic",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of environments in place of envs/: `small`, by a lock."""
    folder = tmp_path / "envs"
    folder.mkdir()
    for name in ("cpu.lock", "cuda.lock", "installer.lock", "conda-cpu.yaml", "small.lock"):
        (folder / name).write_text("numpy==2.0\n")
    monkeypatch.setattr(environments, "FOLDER", folder)
    return folder


def living(name: str, backbone: str = "own") -> dict:
    """The configuration with `backbone` in the environment `name`."""
    config = copy.deepcopy(CONFIG)
    config["extra_backbones"][backbone]["environment"] = name
    return config


def test_what_the_stages_import_is_in_the_list():
    imported = set()
    # one entry point, whose features are its own
    chosen = ("permafrost.backbones.kinds", "entrypoint"), ("permafrost.features.stored", "")
    for stage in STAGES_THERE:
        for module in stage_modules(stage, chosen):
            imported |= set(_read(module).libraries)
    # HDF5 files hold images of datasets, which are prepared in the main environment
    imported -= {*sys.stdlib_module_names, "h5py"}
    assert {DISTRIBUTIONS.get(name, name) for name in imported} <= listed(STAGES)


def test_environments_are_files_beside_those_of_the_main_one(folder):
    (folder / "forge.yaml").write_text("name: forge\n")
    (folder / "image.sif").write_bytes(b"image")
    (folder / "small.in").write_text("numpy\n")
    known = environments.environments()
    assert {name: one.deployed for name, one in known.items()} == {
        "small": None,
        "forge": "conda",
        "image": "apptainer",
    }
    (folder / "small.yaml").write_text("name: small\n")
    with pytest.raises(PermafrostError, match="small.lock and small.yaml define"):
        environments.environments()


def test_an_unknown_name_is_refused_with_those_that_exist(folder, tmp_path):
    with pytest.raises(PermafrostError, match="no environment 'other', known: small") as refused:
        make_plan(fill_root(tmp_path / "root"), living("other"))
    assert "extra_backbones in the configuration: own" in str(
        refused.value
    ) and "other.lock" in str(refused.value)
    # the main environment is meant by leaving the key out
    with pytest.raises(PermafrostError, match="no environment 'cpu'"):
        make_plan(tmp_path / "root", living("cpu"))


def test_the_lock_is_part_of_the_identity_of_the_backbone_that_lives_there_and_of_no_other(
    folder, tmp_path
):
    root = fill_root(tmp_path / "root")
    main, there = fingerprints(make_plan(root)), fingerprints(make_plan(root, living("small")))
    assert moved(main, there) == {"own"}
    (folder / "small.lock").write_text("numpy==2.1\n")
    assert moved(there, fingerprints(make_plan(root, living("small")))) == {"own"}
    # another name for the same is the same
    (folder / "tiny.lock").write_text("numpy==2.0\n")
    assert fingerprints(make_plan(root, living("tiny"))) == there


def moved(before: dict, after: dict) -> set[str]:
    """The backbones whose features have other fingerprints."""
    return {key[2] for key in before if key[0] == "extract" and before[key] != after[key]}


def test_the_job_knows_the_place_of_the_lock_and_no_version_of_the_main_environment(
    folder, tmp_path
):
    config = living("small") | {"versions": "rerun"}
    plan = make_plan(fill_root(tmp_path / "root"), config)
    job, other = plan.extract("world", "own"), plan.extract("world", "net")
    assert job.places["files"]["environment"] == str(folder / "small.lock")
    spec = json.loads(job.spec)
    assert spec["files"]["environment"] == file_digest(folder / "small.lock")
    assert "versions" not in spec and "versions" in json.loads(other.spec)
    assert "environment" not in json.loads(other.spec)["files"]


def test_models_of_another_version_of_a_library_are_not_looked_up_in_this_one(folder, tmp_path):
    config = living("small", "net")
    config["extra_backbones"]["net"] |= {"model": "of_tomorrow"}
    root = fill_root(tmp_path / "root")
    make_plan(root, config)
    del config["extra_backbones"]["net"]["environment"]
    with pytest.raises(PermafrostError, match="of_tomorrow"):
        make_plan(root, config)


def test_what_snakemake_must_deploy_is_refused_where_it_is_not_told_to(folder):
    (folder / "forge.yaml").write_text("name: forge\n")
    there = {"own": environments.environments()["forge"]}
    with pytest.raises(PermafrostError, match="--software-deployment-method conda"):
        environments.check_deployed(there, {"apptainer"})
    environments.check_deployed(there, {"conda"})
    environments.check_deployed({"own": environments.environments()["small"]}, set())


def test_a_job_outside_of_its_environment_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(PermafrostError, match="this job runs in another one"):
        check_environment("0" * 64)
    (tmp_path / "permafrost.lock").write_text("numpy==2.0\n")
    check_environment(file_digest(tmp_path / "permafrost.lock"))
    with pytest.raises(PermafrostError, match="another lock"):
        check_environment("0" * 64)
