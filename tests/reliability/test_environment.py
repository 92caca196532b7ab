"""``envs/run``: on machines without the programs that macOS lacks, twice at once, with torch from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.project import REPOSITORY

# of what Linux and macOS have; neither flock nor sha256sum
PROGRAMS = [
    "bash",
    "env",
    "cat",
    "dirname",
    "mkdir",
    "awk",
    "cksum",
    "grep",
    "true",
    "sleep",
    "cp",
    "rm",
    "ln",
]
# pip, which a real set-up does without where there is uv, takes seconds to install
PYTHON = f"""#!/usr/bin/env bash
if [ "$2" = venv ]; then set -- -m venv --without-pip "${{@:3}}"; fi
exec {sys.executable} "$@"
"""
UV = """#!/usr/bin/env bash
echo "start $*" >> "$CALLS"
sleep 0.5
echo "end" >> "$CALLS"
"""


@pytest.fixture
def clone(tmp_path):
    """A clone's envs/run, with an installer that only writes down what it is asked for."""
    root = tmp_path / "clone"
    shutil.copytree(REPOSITORY / "envs", root / "envs")
    shutil.copy2(REPOSITORY / "pyproject.toml", root)
    (root / "workflow/permafrost").mkdir(parents=True)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name))
    for name, text in (("uv", UV), ("python", PYTHON)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return root


def start(clone: Path, *command: str, root: Path | None = None, **environment: str):
    """Start envs/run of the clone, or of another `root`, in the folder above the clone."""
    root = root or clone
    given = {
        "PATH": str(clone.parent / "programs"),
        "HOME": str(clone.parent),
        "CALLS": str(clone.parent / "calls"),
        "PERMAFROST_PYTHON": str(clone.parent / "programs/python"),
        "PERMAFROST_ENV": "cpu",
    }
    arguments = [shutil.which("bash"), str(root / "envs/run"), *command]
    return subprocess.Popen(
        arguments,
        cwd=clone.parent,
        env=given | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return output


def calls(clone: Path) -> list[str]:
    return (clone.parent / "calls").read_text().splitlines()


def test_it_sets_up_once_without_flock_and_sha256sum(clone):
    finished(start(clone, "true"))
    asked = [line for line in calls(clone) if line.startswith("start")]
    assert ["--require-hashes" in line for line in asked] == [True, False]
    assert asked[0].endswith(".venv/permafrost.lock") and "--editable" in asked[1]
    finished(start(clone, "true"))
    assert len(calls(clone)) == 4
    with (clone / "envs/cpu.lock").open("a") as stream:
        stream.write("# changed\n")
    finished(start(clone, "true"))
    assert len(calls(clone)) == 8


def test_an_activated_environment_is_not_made_anew_from_itself(clone):
    finished(start(clone, "true"))
    with (clone / "envs/cpu.lock").open("a") as stream:
        stream.write("# changed\n")
    programs = clone.parent / "programs"
    activated = {"PATH": f"{clone}/.venv/bin:{programs}", "PERMAFROST_PYTHON": ""}
    output = finished(start(clone, "true", **activated))
    assert f"with {programs}/python " in output


def test_two_at_once_set_up_one_after_the_other(clone):
    both = [start(clone, "true") for _ in range(2)]
    for process in both:
        finished(process)
    assert [line.split()[0] for line in calls(clone)] == ["start", "end"] * 2


def test_torch_from_another_index_and_all_else_from_the_lock(clone):
    address = "file:///wheels"
    output = finished(start(clone, "true", PERMAFROST_TORCH_INDEX=address))
    assert f"torch and torchvision come from {address}, without a check of hashes" in output
    locked, torch, _ = (line for line in calls(clone) if line.startswith("start"))
    assert "--no-deps --require-hashes" in locked and locked.endswith("without-torch.lock")
    lock = (clone / "envs/cpu.lock").read_text()
    versions = re.findall(r"^torch(?:vision)?==\S+", lock, re.MULTILINE)
    assert len(versions) == 2 and torch.endswith(f"--default-index {address} {' '.join(versions)}")
    kept = names((clone / ".venv/without-torch.lock").read_text())
    dropped = names(lock) - kept
    assert {"torch", "torchvision", "triton"} < dropped and kept < names(lock)
    assert all(n.startswith(("torch", "triton", "nvidia-", "cuda-")) for n in dropped)
    assert not dropped & {"torchgeo", "torchmetrics"}
    # remembered, so that the variable need not be set again
    finished(start(clone, "true"))
    assert len(calls(clone)) == 6


def test_another_lock_has_an_environment_of_its_own_without_the_library(clone):
    finished(start(clone, "true"))
    (clone / "envs/small.lock").write_text("numpy==2.0\n")
    place = {"PERMAFROST_ENV": "small", "PYTHONPATH": "/elsewhere", "VIRTUAL_ENV": "/elsewhere"}
    printed = finished(start(clone, "env", **place)).splitlines()
    assert f"VIRTUAL_ENV={clone}/.venv-small" in printed
    assert f"PYTHONPATH={clone}/workflow" in printed
    # commands of jobs name their files from where they are started
    assert f"PWD={clone}" not in printed
    asked = [line for line in calls(clone) if line.startswith("start")]
    assert asked[2].endswith(".venv-small/permafrost.lock") and "--require-hashes" in asked[2]
    assert (clone / ".venv-small/permafrost.lock").read_text() == "numpy==2.0\n"
    finished(start(clone, "true"))
    finished(start(clone, "true", PERMAFROST_ENV="small"))
    assert len(asked) == 3 == len([line for line in calls(clone) if line.startswith("start")])


def test_an_installed_package_keeps_environments_in_the_project_and_shows_them_only_itself(clone):
    package = clone.parent / "site-packages/permafrost"
    shipped = package / "core/shipped"
    shutil.copytree(clone / "envs", shipped / "envs")
    (shipped / "envs/small.lock").write_text("numpy==2.0\n")
    for _ in range(2):
        output = finished(start(clone, "env", root=shipped, PERMAFROST_ENV="small"))
        assert f"PYTHONPATH={clone.parent}/.venv-small/library" in output.splitlines()
    assert [each.resolve() for each in (clone.parent / ".venv-small/library").iterdir()] == [
        package
    ]
    assert len([line for line in calls(clone) if line.startswith("start")]) == 1
    refused = start(clone, "true", root=shipped)
    output, _ = refused.communicate(timeout=120)
    assert refused.returncode == 1 and "Remedy: run the command without envs/run" in output


def test_an_environment_that_cannot_be_installed_leaves_nothing_and_is_tried_again(clone):
    (clone / "envs/small.lock").write_text("numpy==2.0\n")
    uv = clone.parent / "programs/uv"
    uv.write_text("#!/usr/bin/env bash\necho 'no such package' >&2\nexit 2\n")
    for _ in range(2):
        process = start(clone, "true", PERMAFROST_ENV="small")
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "no such package" in output
        assert "permafrost environment: error: envs/small.lock could not be installed" in output
        assert not (clone / ".venv-small").exists()
    uv.write_text(UV)
    finished(start(clone, "true", PERMAFROST_ENV="small"))


def test_an_unknown_lock_is_named(clone):
    process = start(clone, "true", PERMAFROST_ENV="nothing")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1 and "envs/nothing.lock" in output


def test_commands_keep_byte_code_also_where_the_machine_turns_it_off(clone):
    printed = finished(start(clone, "env", PYTHONDONTWRITEBYTECODE="1"))
    assert "VIRTUAL_ENV=" in printed and "PYTHONDONTWRITEBYTECODE" not in printed


def names(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9][\w.-]*)==", lock, re.MULTILINE))


def test_it_needs_no_newer_bash_than_macos_has():
    """Bash 3.2 knows neither of these."""
    text = (REPOSITORY / "envs/run").read_text()
    newer = [
        r"\bmapfile\b",
        r"\breadarray\b",
        r"declare -A",
        r"\$\{\w+,,",
        r"\$\{\w+\^",
        r"&>>",
        r"\|&",
    ]
    assert [pattern for pattern in newer if re.search(pattern, text)] == []


def test_the_scripts_are_bash():
    bash = shutil.which("bash")
    for script in ("envs/run", "envs/lock.sh"):
        subprocess.run([bash, "-n", str(REPOSITORY / script)], check=True, env=os.environ)
