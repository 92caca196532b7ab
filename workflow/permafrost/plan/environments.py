"""Environments that a backbone can live in: what defines them, and how the command of a job is run in one.

An environment is one file beside the workflow: ``envs/NAME.lock``, which ``envs/run`` installs; or
``envs/NAME.yaml`` (conda) or ``envs/NAME.sif`` (apptainer), which Snakemake deploys.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.home import HOME

FOLDER = HOME / "envs"
# the main environment, in its variants, and what installs it
_MAIN = frozenset({"cpu", "cuda", "conda-cpu", "conda-cuda", "installer"})
#: suffix of the file -> what Snakemake calls it where it deploys the environment
DEPLOYED = {".lock": None, ".yaml": "conda", ".sif": "apptainer"}
_PROGRAM = "python -m permafrost.stages.cli"


@dataclass(frozen=True)
class Environment:
    """An environment of a name, and the file that defines it."""

    name: str
    file: Path

    @property
    def deployed(self) -> str | None:
        """``conda`` or ``apptainer``, as in Snakemake's ``--software-deployment-method``; None: ``envs/run``."""
        return DEPLOYED[self.file.suffix]

    def shown(self, root: Path) -> str:
        """Its file as jobs in `root` name it."""
        file, root = self.file, Path(os.path.abspath(root))
        return str(file.relative_to(root) if file.is_relative_to(root) else file)

    @property
    def program(self) -> str:
        """What stands for ``permafrost`` in a job's command.

        The command of the main environment is on every job's PATH, so another environment's Python runs the
        library. Places are in variables that `snakemake_process.expose_commands` sets: a project that was
        moved has the same parameters.
        """
        if self.deployed:
            return _PROGRAM
        return f'PERMAFROST_ENV={self.name} bash "$PERMAFROST_ENVS/run" {_PROGRAM}'


def environments() -> dict[str, Environment]:
    """The environments beside the main one, by name.

    Raises
    ------
    PermafrostError : two files define one name.
    """
    known: dict[str, Environment] = {}
    for file in sorted(FOLDER.glob("*")):
        if file.suffix not in DEPLOYED or file.stem in _MAIN or not file.is_file():
            continue
        if file.stem in known:
            raise PermafrostError(
                f"{known[file.stem].file.name} and {file.name} define the environment {file.stem!r} both",
                where=FOLDER,
                remedy="rename one of them",
            )
        known[file.stem] = Environment(file.stem, file)
    return known


def environment_of(entry: dict) -> Environment | None:
    """The environment that a backbone's entry names; None: the main one. An unknown name is refused."""
    name = entry.get("environment")
    if name is None:
        return None
    known = environments()
    return look_up(
        known,
        name,
        "there is no environment",
        remedy=f"name one of these, or add {FOLDER / name}.lock (docs/install.md)",
    )


def check_deployed(environments: dict[str, Environment], methods: set[str]) -> None:
    """Refuse environments that Snakemake would have to deploy and was not told to: it would use the main one.

    Parameters
    ----------
    environments : of the backbones that are run, by backbone.
    methods : Snakemake's methods of software deployment that are on.
    """
    for backbone, environment in environments.items():
        needed = environment.deployed
        if needed and needed not in methods:
            raise PermafrostError(
                f"the backbone {backbone!r} needs an environment of {needed}, which is not enabled",
                where=environment.file,
                remedy=f"run snakemake with `--software-deployment-method {needed}`",
            )
