"""Fixtures that the whole suite shares."""

from __future__ import annotations

import atexit
import copy
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.project import REPOSITORY, Project
from permafrost.operate import light_client

# workers share the cores, also among the processes that they start: each with a thread per core, they would mostly
# wait for each other. Set before NumPy and PyTorch are loaded, which read it once
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    threads = max(1, (os.cpu_count() or 1) // workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))

# Snakemake's plugin for Slurm asks scontrol whenever it is loaded, and waits ten seconds where Slurm is installed and
# not running; the tests of Slurm take this out again
NO_SLURM = str(Path(__file__).parent / "slurm" / "not_running")
os.environ["PATH"] = os.pathsep.join([NO_SLURM, os.environ.get("PATH", os.defpath)])

# all runs that these tests start share the processes that have imported torch; their code is each run's own
if light_client.SESSION not in os.environ:
    # workers of xdist have it from the process that starts them
    os.environ[light_client.SESSION] = light_client.this_process()
    sockets = light_client.folder_of(os.environ[light_client.SESSION])
    atexit.register(shutil.rmtree, sockets, ignore_errors=True)

# folders of tests, those with the longest files first: begun last, they would occupy one worker alone
ORDER = ("workflow", "reliability", "parity", "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: ORDER.index(item.nodeid.split("/")[1]))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data and weights, kept outside the repository; tests that need them skip without."""
    folder = Path(os.environ.get("PERMAFROST_SHARED", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(
            f"the shared real data are not at {folder} (PERMAFROST_SHARED names another place)"
        )
    return folder


@pytest.fixture
def fresh_project(tmp_path) -> Project:
    """A project that was never run."""
    return Project(tmp_path / "fresh")


@pytest.fixture(scope="session")
def _finished(tmp_path_factory, worker_id) -> Project:
    """The tiny project, which the worker that is first to need it runs for all."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    project = Project(folder / f"finished-{worker_id}")
    with (folder / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = folder / "finished"
        if not made.exists():
            project.snakemake()
            project.folder.rename(made)
    project.folder = made
    return project


@pytest.fixture
def project(_finished, tmp_path) -> Project:
    """A copy of a project whose main job has been run; tests may change it."""
    folder = tmp_path / "project"
    shutil.copytree(_finished.folder, folder, symlinks=True)
    copied = copy.copy(_finished)
    copied.folder, copied.config = folder, copy.deepcopy(_finished.config)
    return copied


@pytest.fixture
def small_disk(tmp_path):
    """A function that mounts a file system of so many kilobytes; needs root, skips without."""
    mounted = []

    def mount(kilobytes: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
        if os.geteuid() or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("mounting a small disk needs root and the right to mount")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)
