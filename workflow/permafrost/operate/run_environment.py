"""What Snakemake takes for granted of a machine, and small ones lack: a cache folder, and the program ``which``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# of Snakemake's Slurm plugin, which is loaded for local runs too
WHICH = "which"
_WHICH_SCRIPT = '#!/bin/sh\ncommand -v "$1"\n'
_OWN = ".snakemake/permafrost"
# caches of weights below the user's cache folder, by the variable that names each
_WEIGHTS = {"TORCH_HOME": "torch", "HF_HOME": "huggingface"}


def cache_folder() -> Path:
    """Where programs of this user keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def cache_can_be_written() -> bool:
    """Whether Snakemake can make its folder there, as it does at every start."""
    own = cache_folder() / "snakemake"
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(own, os.W_OK)


def provide(root: Path) -> list[str]:
    """Put what is lacking below the project `root`, for this process and those that it starts.

    Returns
    -------
    A sentence for each thing that was put there.
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
