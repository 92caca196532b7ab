"""Read a project's configuration, merged as Snakemake would, without Snakemake."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.home import HOME
from permafrost.plan.catalogue import read_yaml
from permafrost.plan.configuration import Configuration
from permafrost.plan.demo import complete
from permafrost.plan.grid import Grid
from permafrost.plan.plan import Plan


def read_configuration(
    root: Path, files: Sequence[Path] = (), data: Path | None = None
) -> tuple[Grid, str | None]:
    """The `Plan` of a configuration and None; if files that it names are missing, a `Grid` and why.

    Parameters
    ----------
    files : override the project's config/config.yaml, and later ones override earlier ones.
    data : replaces the configuration's data folder.

    Raises
    ------
    PermafrostError : the configuration itself is wrong.
    """
    where = ", ".join(map(str, [root / "config/config.yaml", *files]))

    def read() -> dict:
        own = root / "config/config.yaml"
        layers = [read_yaml(path) for path in [*([own] if own.exists() else []), *files]]
        if data is not None:
            layers.append({"data": str(data)})
        config: dict = {}
        for layer in layers:
            _lay_over(config, layer)
        complete(config, layers, read_yaml(HOME / "config/demo.yaml"), root)
        return config

    try:
        return Plan(read(), root, where=where), None
    except PermafrostError as error:
        grid = Grid(Configuration(read(), root, where=where, checked=False, identify=False))
        return grid, _first_of(error)


def _first_of(error: PermafrostError) -> str:
    """The first mistake, and the number of further ones."""
    _, *listed = error.problem.splitlines()
    if not listed:
        return str(error)
    first = listed[0].strip().removeprefix("1. ").partition(" Remedy:")[0]
    return first if len(listed) == 1 else f"{first} And {len(listed) - 1} more"


def _lay_over(config: dict, layer: dict) -> None:
    """Merge `layer` into `config` as Snakemake does: mappings key by key, other values replaced."""
    for key, value in layer.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            _lay_over(config[key], value)
        else:
            config[key] = value
