"""The contracts with Snakemake hold with its newest release, too, which the locks may not have yet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.project import REPOSITORY

pytestmark = pytest.mark.slow

CONTRACTS = "tests/unit/core/test_snakemake_internals.py"
# the settings in pyproject.toml and conftest.py need the whole environment
ALONE = ("-c", os.devnull, "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider")
NO_INDEX = re.compile(
    "failed to fetch|client error|network|not found in the package registry", re.I
)


@pytest.fixture(scope="module")
def newest(tmp_path_factory) -> str:
    """Python of an environment that has the newest Snakemake of the package index, and pytest."""
    # where envs/run finds or installs it
    places = [*os.get_exec_path(), str(Path(sys.executable).parent)]
    uv = shutil.which("uv", path=os.pathsep.join(places))
    if uv is None:
        pytest.skip("there is no uv, which installs Snakemake's newest release")
    folder = tmp_path_factory.mktemp("newest") / "venv"
    python = str(folder / "bin/python")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    # an empty environment takes the newest release that is not a pre-release
    install = [uv, "pip", "install", "--quiet", "--python", python, "snakemake", "pytest"]
    done = subprocess.run(install, capture_output=True, text=True)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"the package index cannot be reached: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return python


def test_the_contracts_hold_with_the_newest_release(newest):
    version = "import importlib.metadata as m; print(m.version('snakemake'))"
    release = subprocess.check_output([newest, "-c", version], text=True).strip()
    done = subprocess.run(
        [newest, "-m", "pytest", *ALONE, CONTRACTS],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"Snakemake {release}:\n{done.stdout}{done.stderr}"
    assert " passed" in done.stdout and "skipped" not in done.stdout
