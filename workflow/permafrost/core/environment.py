"""The environment of a process: the one that its backbone needs, and the user's home folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.identity import file_digest

#: environment variable of a job: the main environment's interpreter
MAIN_PYTHON = "PERMAFROST_MAIN_PYTHON"
#: role of the lock file among the files of a backbone
ROLE = "environment"


def check_environment(digest: str) -> None:
    """Check that ``envs/run`` installed this environment from the lock file with this SHA-256.

    Raises
    ------
    PermafrostError : this is another environment, or it was installed from another lock file.
    """
    installed = Path(sys.prefix) / "permafrost.lock"
    try:
        found = file_digest(installed)
    except OSError as error:
        raise PermafrostError(
            f"the backbone needs its own environment, and this job runs in another one ({first_line(error)})",
            where=sys.prefix,
            remedy="let snakemake start the job, or start it with PERMAFROST_ENV=NAME envs/run",
        ) from error
    if found != digest:
        raise PermafrostError(
            "the environment was installed from another lock than the plan of this run",
            where=sys.prefix,
            remedy="start snakemake again",
        )


def user_home() -> Path:
    """The user's home folder; one that cannot be made if the system knows none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
