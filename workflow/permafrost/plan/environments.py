"""Separate environments for backbones: the files that define them, and how jobs run in them.

An environment is one file: ``envs/NAME.lock``, which ``envs/run`` installs; or
``envs/NAME.yaml`` (conda) or ``envs/NAME.sif`` (apptainer), which Snakemake deploys.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.home import HOME

FOLDER = HOME / "envs"
# file names of the main environment's variants, and of its installer
_MAIN = frozenset({"cpu", "cuda", "conda-cpu", "conda-cuda", "installer"})
#: suffix of the file -> Snakemake's deployment method; None: `envs/run` installs it
DEPLOYED = {".lock": None, ".yaml": "conda", ".sif": "apptainer"}
_PROGRAM = "python -m permafrost.stages.cli"


@dataclass(frozen=True)
class Environment:
    """A named environment and the file that defines it."""

    name: str
    file: Path

    @property
    def deployed(self) -> str | None:
        """Snakemake's ``--software-deployment-method``; None: ``envs/run`` installs it."""
        return DEPLOYED[self.file.suffix]

    def shown(self, root: Path) -> str:
        """The file's path, relative to `root` if inside it."""
        file, root = self.file, Path(os.path.abspath(root))
        return str(file.relative_to(root) if file.is_relative_to(root) else file)

    @property
    def program(self) -> str:
        """The program that a job's command runs instead of ``permafrost``.

        It starts the library with the environment's Python, because ``permafrost`` on a job's PATH
        is that of the main environment. Paths are in variables that
        `snakemake_process.expose_commands` sets, so moving a project does not change parameters.
        """
        if self.deployed:
            return _PROGRAM
        return f'PERMAFROST_ENV={self.name} bash "$PERMAFROST_ENVS/run" {_PROGRAM}'


def environments() -> dict[str, Environment]:
    """The environments other than the main one, by name.

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
    """The environment of a backbone's entry; None: the main one. An unknown name is refused."""
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
    """Refuse environments whose deployment method is off: Snakemake would use the main one.

    Parameters
    ----------
    environments : backbone to its environment, for the backbones of the run.
    methods : Snakemake's enabled deployment methods.
    """
    for backbone, environment in environments.items():
        needed = environment.deployed
        if needed and needed not in methods:
            raise PermafrostError(
                f"the backbone {backbone!r} needs an environment of {needed}, which is not enabled",
                where=environment.file,
                remedy=f"run snakemake with `--software-deployment-method {needed}`",
            )
