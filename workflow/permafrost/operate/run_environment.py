"""Provide what Snakemake needs and small machines may lack: a cache folder and ``which``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# needed by Snakemake's Slurm plugin, which local runs also load
WHICH = "which"
_WHICH_SCRIPT = '#!/bin/sh\ncommand -v "$1"\n'
_OWN = ".snakemake/permafrost"
# environment variable -> cache of weights below the user's cache folder
_WEIGHTS = {"TORCH_HOME": "torch", "HF_HOME": "huggingface"}


def cache_folder() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def cache_can_be_written() -> bool:
    """Whether Snakemake can create its cache folder, which it does at every start."""
    own = cache_folder() / "snakemake"
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(own, os.W_OK)


def provide(root: Path) -> list[str]:
    """Provide missing parts below the project `root`, for this process and its children.

    Returns
    -------
    A message if the cache folder was replaced, else an empty list.
    """
    said = []
    if not cache_can_be_written():
        for variable, name in _WEIGHTS.items():
            if (cache_folder() / name).is_dir():
                os.environ.setdefault(variable, str(cache_folder() / name))
        said.append(f"{cache_folder()} cannot be written to, so the cache is in {root / _OWN}")
        os.environ["XDG_CACHE_HOME"] = str(root / _OWN / "cache")
    if shutil.which(WHICH) is None:
        program = root / _OWN / "bin" / WHICH
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(_WHICH_SCRIPT)
        program.chmod(0o755)
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{program.parent}"
    return said
