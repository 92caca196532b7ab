"""Run simulations, print their tables, and with ``--write`` put them into the documentation.

    envs/run python -m benchmarks.simulations [NAME ...] [--small | --draws N] [--seed S] [--write]

Without names all simulations run. A page shows the table of the simulation NAME between the lines
``<!-- simulation NAME -->`` and ``<!-- end of simulation NAME -->``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from pathlib import Path

import benchmarks.simulations as package

ROOT = Path(__file__).resolve().parents[2]


def names() -> list[str]:
    """Names of the modules that hold a simulation, in order."""
    found = (module.name for module in pkgutil.iter_modules(package.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def written(page: str, name: str, table: str) -> str:
    """The page with `table` between the marks of the simulation; ValueError where it lacks them."""
    begin, end = f"<!-- simulation {name} -->", f"<!-- end of simulation {name} -->"
    before, begun, rest = page.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise ValueError(f"the lines '{begin}' and '{end}' are missing")
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names()) or "none yet")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--small", action="store_true", help="as few draws as the tests take")
    size.add_argument("--draws", type=int, help="draws of each cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write tables into the documentation")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(names())):
        parser.error(
            f"no simulation is called {', '.join(unknown)}; there are {', '.join(names())}"
        )
    for name in options.names or names():
        module = importlib.import_module(f"{package.__name__}.{name}")
        draws = options.draws or (module.SMALL if options.small else module.FULL)
        table = module.table(draws, options.seed).strip()
        table = f"{table}\n\n{module.TITLE}: {draws} draws, seed {options.seed}."
        print(f"## {name}\n\n{table}\n", flush=True)
        if options.write:
            page = ROOT / module.DOCUMENT
            try:
                page.write_text(written(page.read_text(), name, table))
            except (OSError, ValueError) as error:
                parser.error(f"{module.DOCUMENT}: {error}; add them where the table belongs")


if __name__ == "__main__":
    main()
