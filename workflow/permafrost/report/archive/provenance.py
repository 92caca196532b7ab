"""Provenance of a run: machine, packages, and version of the code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from permafrost.core.cores import usable_cores
from permafrost.core.names import SOURCES

_NOT_SOURCE = {"__pycache__", ".snakemake", ".ruff_cache", ".pytest_cache"}


def describe_machine() -> dict[str, object]:
    """Processor, memory, GPUs, system and Python of this machine, without further imports."""
    return {
        "system": platform.platform(),
        "distribution": _distribution(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores usable": usable_cores(),
        "memory (GiB)": _memory_gib(),
        "GPUs": _gpus(),
        "python": platform.python_version(),
    }


def installed_packages() -> dict[str, str]:
    """Name -> version of every installed distribution."""
    packages = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            packages[name.lower().replace("_", "-")] = distribution.version
    return dict(sorted(packages.items()))


def describe_code(source: Path) -> dict[str, object]:
    """Commit and dirty flag if git knows them, and a hash of the source files.

    Parameters
    ----------
    source : folder of the workflow (the one with the Snakefile).
    """
    commit = _git(source, "rev-parse", "HEAD")
    changed = _git(source, "status", "--porcelain", "--", *_present(source)) if commit else None
    return {
        "commit": commit or None,
        "dirty": bool(changed) if commit else None,
        "sources_sha256": source_hash(source),
    }


def source_files(source: Path) -> list[Path]:
    """Paths of the workflow's source files, relative to `source`, sorted; links are excluded."""
    files = []
    for top in _present(source):
        start = source / top
        candidates = [start] if start.is_file() else sorted(start.rglob("*"))
        files += [
            path.relative_to(source)
            for path in candidates
            if path.is_file()
            and not path.is_symlink()
            and not any(part in _NOT_SOURCE or part.endswith(".egg-info") for part in path.parts)
        ]
    return sorted(files)


def source_hash(source: Path) -> str:
    """SHA-256 over the names and contents of `source_files`."""
    digest = hashlib.sha256()
    for path in source_files(source):
        content = (source / path).read_bytes()
        digest.update(f"{path.as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _present(source: Path) -> list[str]:
    return [name for name in SOURCES if (source / name).exists()]


def _git(source: Path, *arguments: str) -> str | None:
    return _output(["git", "-C", str(source), *arguments])


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "not known")
    except OSError:
        return "not known"


def _processor() -> str:
    try:
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _gpus() -> list[str]:
    query = "--query-gpu=name,memory.total,driver_version"
    listed = _output(["nvidia-smi", query, "--format=csv,noheader"])
    return sorted(listed.splitlines()) if listed else []


def git_user(source: Path) -> str | None:
    """The user name configured in git, or None."""
    return _git(source, "config", "user.name") or None
