"""Measure the tables of benchmarks/README.md again, and say which figures moved.

    envs/run python benchmarks/refresh.py [NAME ...] [--project FOLDER] [--data FOLDER] [--peers .peers] [--check]

Between `<!-- refresh COMMAND -->` and `<!-- end -->` stands what COMMAND prints. This runs the commands of the scripts
NAME, or all of them, on this machine, and writes their tables into the README, with machine, date and load. It prints
figures that have moved by more than a quarter. With `--check` it writes nothing, and such figures are an error.

In a command, `{project}` is a project whose demo has been run; without `--project` one is made. `{folder}` is an empty
folder. Commands with `{data}` or `{peers}` are left out unless the option is given.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from _tables import Table, number_of, tables_of

HERE = Path(__file__).resolve().parent
README = HERE / "README.md"
_BLOCK = re.compile(r"<!-- refresh (?P<command>.+?) -->\n(?P<held>.*?)<!-- end -->", re.DOTALL)
MOVED = 1.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="scripts, such as report; all by default")
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--project", type=Path, help="a project whose demo has been run")
    parser.add_argument("--data", type=Path, help="folder of real data")
    parser.add_argument("--peers", type=Path, help="environment with the peers")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; moved figures are an error"
    )
    options = parser.parse_args()
    moved = []
    for block in [*_BLOCK.finditer(options.readme.read_text())]:
        name = Path(shlex.split(block["command"])[0]).stem
        if options.names and name not in options.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            command = filled(block["command"], options, Path(folder))
            if command is None:
                print(f"{name}: left out, it needs an option that is not given", flush=True)
                continue
            print(f"{name}: {block['command']}", flush=True)
            made, load = measured(command, options.project or HERE.parent)
        found = [f"{name}: {one}" for one in differences(tables_of(block["held"]), made)]
        print(*found, sep="\n", end="\n" if found else "", flush=True)
        moved += found
        if not options.check:
            write(options.readme, block, made, load)
    print(f"{len(moved)} figures moved by more than a quarter")
    if options.check and moved:
        sys.exit(1)


def filled(command: str, options: argparse.Namespace, folder: Path) -> list[str] | None:
    """The command's words with its places; None if an option is not given."""
    places = {name: getattr(options, name) for name in ("project", "data", "peers")}
    if "{project}" in command and places["project"] is None:
        places["project"] = options.project = demo()
    wanted = {name for name in places if f"{{{name}}}" in command}
    if any(places[name] is None for name in wanted):
        return None
    known = {name: Path(places[name]).absolute() for name in wanted}
    words = [word.format(folder=folder, **known) for word in shlex.split(command)]
    return [str(HERE.parent / words[0]), *words[1:]]


def demo() -> Path:
    """A new project in a temporary folder, in which the demo has been run."""
    folder = Path(tempfile.mkdtemp(prefix="permafrost-refresh-")) / "project"
    command = [sys.executable, "-m", "permafrost.stages.cli"]
    subprocess.run([*command, "init", str(folder)], check=True, stdout=sys.stderr)
    config = (HERE.parent / "config/demo.yaml").read_text()
    config += '\ncatalogues: ["{permafrost}/config"]\n'
    (folder / "config/config.yaml").write_text(config)
    subprocess.run([*command, "run"], cwd=folder, check=True, stdout=sys.stderr)
    return folder


def measured(command: list[str], folder: Path) -> tuple[list[Table], tuple[float, float]]:
    """The tables that a command prints in a folder, and the least and greatest load around it."""
    before = os.getloadavg()[0]
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr[-4000:]}")
    after = os.getloadavg()[0]
    return tables_of(done.stdout), (min(before, after), max(before, after))


def differences(before: list[Table], now: list[Table]) -> Iterator[str]:
    """A line for each figure that moved by more than a quarter, or that is gone."""
    for old, new in zip(before, now, strict=False):
        known = {key: dict(zip(new.header, cells, strict=True)) for key, cells in labelled(new)}
        for key, cells in labelled(old):
            for title, cell in zip(old.header[1:], cells[1:], strict=True):
                was, there = number_of(cell), known.get(key, {}).get(title)
                if was != was:
                    continue
                if there is None:
                    yield f"{cells[0]}, {title}: {cell}, no longer measured"
                    continue
                ratio = number_of(there) / was if was else float("inf")
                if not 1 / MOVED <= ratio <= MOVED and number_of(there) != was:
                    yield f"{cells[0]}, {title}: {cell} -> {there}"


def labelled(table: Table) -> Iterator[tuple[tuple[str, int], tuple[str, ...]]]:
    """The first cell of each row and how often it stood above, and the row."""
    seen: Counter[str] = Counter()
    for cells in table.rows:
        yield (cells[0], seen[cells[0]]), cells
        seen[cells[0]] += 1


def write(readme: Path, block: re.Match, made: list[Table], load: tuple[float, float]) -> None:
    """Replace the tables of a block; the file may have changed since the block was read."""
    text = readme.read_text()
    date = datetime.datetime.now(datetime.UTC).date()
    said = (
        f"{date}, {processor()}, {len(os.sched_getaffinity(0))} cores, load {load[0]:.1f} to {load[1]:.1f} "
        "(the run's own 1 included)."
    )
    head = f"<!-- refresh {block['command']} -->"
    new = "\n\n".join([*map(str, made), said])
    if block[0] not in text:
        raise SystemExit(f"{readme}: the table of {block['command']} is gone; nothing is written")
    readme.write_text(text.replace(block[0], f"{head}\n{new}\n<!-- end -->"))


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
