"""What the processes that run the stages must find in their environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def expose_commands(library: Path) -> None:
    """Let every job find the `permafrost` command and this library, activated environment or not.

    Parameters
    ----------
    library : the folder that holds the package ``permafrost``.
    """
    _prepend("PATH", Path(sys.executable).parent)
    _prepend("PYTHONPATH", library)
    # threads that spin while they wait starve the other jobs where cores are fewer than threads
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def _prepend(variable: str, folder: Path) -> None:
    known = os.environ.get(variable, "").split(os.pathsep)
    if str(folder) not in known:
        os.environ[variable] = os.pathsep.join(filter(None, [str(folder), *known]))
