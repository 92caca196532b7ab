"""`snakemake` in a fork of a process that has imported it, which is most of what a start of it costs."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# none imports the library itself, which is each project's own
LIBRARIES = ["pydantic", "snakemake.cli", "snakemake_storage_plugin_s3", "zarr"]
# variables that no import reads; with others than the first caller's, `snakemake` starts by itself
FREE = ("AWS_", "PERMAFROST_", "PYTEST_CURRENT_TEST", "PYTHONPATH", "SNAKEMAKE_", "TMPDIR")
_started: dict[str, str] = {}


def snakemake(arguments: list[str], folder: Path, environment: dict[str, str], timeout: float):
    """What ``python -m snakemake ARGUMENTS`` leaves in `folder`, as a finished process with texts."""
    fixed = {name: text for name, text in environment.items() if not name.startswith(FREE)}
    context = multiprocessing.get_context("forkserver")
    if not _started:
        context.set_forkserver_preload(LIBRARIES)
        _started.update(fixed)
    command = [sys.executable, "-m", "snakemake", *arguments]
    if fixed != _started:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout
        )
    with tempfile.TemporaryDirectory() as said:
        files = [Path(said) / name for name in ("stdout", "stderr")]
        process = context.Process(target=_run, args=(arguments, folder, environment, files))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        texts = [file.read_text() if file.exists() else "" for file in files]
        return subprocess.CompletedProcess(command, process.exitcode, *texts)


def _run(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path]):
    """Be ``python -m snakemake ARGUMENTS``."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    for descriptor, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # a new interpreter has these folders, not those of the tests
    installed = [place for place in sys.path if place.startswith((sys.prefix, sys.base_prefix))]
    asked = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [str(folder), *asked, *installed]
    sys.path_importer_cache.clear()
    sys.argv = ["snakemake", *arguments]
    assert "permafrost" not in sys.modules

    from snakemake.cli import main

    try:
        main()
    finally:
        # processes of multiprocessing leave this out
        atexit._run_exitfuncs()
