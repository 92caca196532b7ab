"""``permafrost doctor``: each thing that can be missing is missed, and what to do is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from permafrost.core.errors import PermafrostError
from permafrost.operate import doctor
from permafrost.operate.doctor import ABSENT, MISSING, OK, examine
from permafrost.operate.offers import read_offers
from permafrost.stages.cli import main

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine with room and without programs, GPU or weights, whatever this one has; the folder of its programs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "which").write_text("#!/bin/sh\n")
    (programs / "which").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    for name in ("XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    usage = shutil.disk_usage("/")._replace(free=1 << 40)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(doctor, "available_bytes", lambda: 1 << 40)
    monkeypatch.setattr(doctor, "gpu_is_visible", lambda: False)
    return programs


@pytest.fixture
def found(tmp_path):
    """Findings by name, of a configuration."""

    def of(config: dict | str | None = None) -> dict[str, doctor.Finding]:
        path = tmp_path / "mine.yaml"
        path.write_text(config if isinstance(config, str) else yaml.safe_dump(config or {}))
        findings = examine(lambda: read_offers(ROOT, [path], tmp_path / "data"), ROOT)
        assert all(one.remedy for one in findings if one.state != OK)
        return {one.name: one for one in findings}

    return of


def test_the_installed_environment_is_as_its_lock(found):
    findings = found()
    assert {findings[name].state for name in ("python", "packages", "cores")} == {OK}
    assert findings["configuration"].found == "names no backbone or dataset, so the demo runs"


def test_packages_that_differ_from_the_lock_are_named():
    lock = (
        "numpy==0.0.1 \\\n    --hash=sha256:00\nno-such-package==1.0 \\\n    --hash=sha256:00\n"
        f"pyyaml=={yaml.__version__} \\\n    --hash=sha256:00\n"
        "colorama==0.0.1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
    )
    total, wrong = doctor._compared(lock)
    assert total == 3 and wrong[1:] == ["no-such-package (not installed)"]
    assert wrong[0].startswith("numpy (") and wrong[0].endswith(", not 0.0.1)")


@pytest.mark.parametrize(("device", "state"), [("auto", ABSENT), ("cuda", MISSING)])
def test_a_gpu_is_missed_only_where_one_is_asked_for(found, device, state):
    assert found({"runtime": {"device": device}})["gpu"].state == state


def test_torch_that_is_built_for_the_cpu_is_named(found, monkeypatch):
    monkeypatch.setattr(doctor, "gpu_is_visible", lambda: True)
    monkeypatch.setattr(doctor, "torch_is_built_for_gpu", lambda: False)
    gpu = found({"runtime": {"device": "cuda"}})["gpu"]
    assert gpu.state == MISSING and "PERMAFROST_ENV=cuda" in gpu.remedy


def test_little_memory_and_a_full_disk_are_missing(found, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(doctor, "available_bytes", lambda: 1 << 20)
    findings = found()
    assert findings["disk"].state == findings["memory"].state == MISSING
    assert "1.05 MB free" in findings["disk"].found and "stale" in findings["disk"].remedy


def test_a_cache_that_cannot_be_written_and_a_missing_which_are_named(found, machine, monkeypatch):
    findings = found()
    assert findings["cache"].state == findings["which"].state == OK
    (machine / "which").unlink()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nobody")
    findings = found()
    assert findings["cache"].state == findings["which"].state == MISSING
    assert "/proc/nobody cannot be written to" in findings["cache"].found


def test_slurm_is_asked_for_its_partitions(found, machine):
    assert found()["slurm"].state == ABSENT
    for name in ("sbatch", "squeue", "sinfo"):
        (machine / name).write_text("#!/bin/sh\necho short\necho long\n")
        (machine / name).chmod(0o755)
    slurm = found()["slurm"]
    assert (slurm.state, slurm.found) == (OK, "partitions short, long")
    (machine / "sinfo").write_text("#!/bin/sh\nexit 1\n")
    assert found()["slurm"].found == "sinfo failed, or gave no answer in 3 s"


def test_a_slurm_that_is_down_is_not_waited_for(found, machine, monkeypatch):
    """Its commands try for nine seconds to reach the controller; here their child would for an hour."""
    monkeypatch.setattr(doctor, "_PATIENCE_S", 0.2)
    for name in ("sbatch", "squeue", "sinfo"):
        (machine / name).write_text("#!/bin/sh\necho short\n/bin/sleep 3600\n")
        (machine / name).chmod(0o755)
    slurm = found()["slurm"]
    assert slurm.state == ABSENT
    assert slurm.found == "sinfo and squeue failed, or gave no answer in 0.2 s"


def test_data_and_weights_that_the_configuration_names_are_looked_for(found, tmp_path):
    config = {"datasets": ["eurosat", "demo-landcover"], "backbones": ["resnet50-imagenet", "rcf"]}
    findings = found(config)
    assert findings["data of eurosat"].state == MISSING
    assert findings["data of eurosat"].remedy == "permafrost fetch eurosat"
    assert findings["weights of resnet50-imagenet"].state == MISSING
    assert findings["data of demo-landcover"].state == findings["weights of rcf"].state == OK
    assert findings["configuration"].state == OK


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("datasets: [a\n", ["mine.yaml", "cannot be read as YAML", "line"]),
        ({"datasets": ["eurosatt"]}, ["no dataset 'eurosatt'", "did you mean 'eurosat'"]),
        ({"backbonez": ["rcf"]}, ["backbonez", "did you mean 'backbones'"]),
        # no pair is left, so that the plan refuses it
        ({"datasets": ["m-pv4ger"], "backbones": ["croma-base"]}, ["croma-base on m-pv4ger"]),
    ],
)
def test_a_broken_configuration_is_one_finding_beside_the_others(found, config, words):
    findings = found(config)
    broken = findings["configuration"]
    assert broken.state == MISSING and findings["python"].state == OK
    assert [word for word in words if word not in broken.found] == []


def test_the_command_says_it_as_text_and_as_json_and_fails_where_something_is_missing(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(ROOT)
    assert main(["doctor"]) == 0
    assert "nothing is missing" in capsys.readouterr().out
    mine = tmp_path / "mine.yaml"
    mine.write_text("datasets: [nosuch]\n")
    assert main(["doctor", "--config", str(mine)]) == 1
    assert "Remedy: correct the name" in capsys.readouterr().out
    assert main(["doctor", "--config", str(mine), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    states = {check["name"]: check["state"] for check in said["checks"]}
    assert not said["ok"] and states["configuration"] == MISSING


def test_a_configuration_that_cannot_be_read_at_all_does_not_stop_it():
    def broken():
        raise PermafrostError("is broken", where="here.yaml", remedy="mend it")

    found = {one.name: one for one in examine(broken, ROOT)}
    assert found["configuration"].found == "here.yaml: is broken"
    assert found["configuration"].remedy == "mend it" and found["cores"].state == OK
