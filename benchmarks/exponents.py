"""How costs grow: the exponent between two sizes, of costs that other scripts measure.

    python benchmarks/exponents.py [--only aggregate ...] [--project FOLDER] [--small]

The exponent is log(cost ratio) / log(size ratio): 1 is proportional, 0 constant. CPU seconds are of whole processes, so
start-up lowers it. `--project` is a project whose demo has been run, for the report; `--small` takes sizes for tests.
"""

from __future__ import annotations

import argparse
import math
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from _tables import Table, number_of, tables_of
from _timing import one_thread, print_table

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Growth:
    """A cost at two sizes.

    Attributes
    ----------
    cost : what is measured; of : what grows.
    script, arguments : of the benchmark, with {a} and {b} for the sizes.
    sizes, small : from, to.
    column : of the cost; labels : cells of its row, with {size}.
    """

    cost: str
    of: str
    script: str
    arguments: str
    sizes: tuple[int, int]
    small: tuple[int, int]
    column: str
    labels: tuple[str, ...]


ROWS = "--folder {folder} --rows {a} {b}"
GROWTHS = (
    Growth(
        "prepare", "images", "million",
        "--folder {folder} --images {a} {b} --held-out 2 --files --parts 1 --prepare-only",
        (2_000, 8_000), (4, 8), "CPU s", ("prepare", "{size:,}"),
    ),
    Growth(
        "linear, 40 C and refit", "rows", "linear_scale", f"{ROWS} --sides held",
        (10_000, 40_000), (200, 400), "CPU s", ("{size:,}", "linear"),
    ),
    Growth(
        "bootstrap, 10 classes", "rows", "statistics_scale",
        f"{ROWS} --only bootstrap --what '10 classes' --no-peers",
        (100_000, 1_000_000), (100, 200), "CPU s", ("10 classes", "{size:,}"),
    ),
    Growth(
        "aggregate, 20 datasets", "backbones", "standings", "--sizes {a}x20x4 {b}x20x4",
        (10, 40), (2, 3), "CPU", ("{size}x20x4",),
    ),
    Growth(
        "aggregate, 20 backbones", "datasets", "standings", "--sizes 20x{a}x4 20x{b}x4",
        (10, 40), (2, 3), "CPU", ("20x{size}x4",),
    ),
    Growth(
        "report, 10 datasets", "backbones", "report", "--results {project}/results --sizes {a}x10 {b}x10",
        (10, 40), (2, 3), "CPU s", ("{size} backbones, 10 datasets",),
    ),
    Growth(
        "report, 10 backbones", "datasets", "report", "--results {project}/results --sizes 10x{a} 10x{b}",
        (10, 40), (2, 3), "CPU s", ("10 backbones, {size} datasets",),
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted({one.script for one in GROWTHS}))
    parser.add_argument("--project", type=Path, default=Path())
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    rows = []
    for growth in GROWTHS:
        if options.only and growth.script not in options.only:
            continue
        sizes = growth.small if options.small else growth.sizes
        costs = measure(growth, sizes, options.project.absolute())
        exponent = math.log(costs[1] / costs[0]) / math.log(sizes[1] / sizes[0])
        rows.append(
            [growth.cost, growth.of, *(f"{size:,}" for size in sizes)]
            + [f"{costs[0]:.1f}", f"{costs[1]:.1f}", f"{exponent:.2f}"]
        )
        print(rows[-1], file=sys.stderr, flush=True)
    print_table(["cost", "grows with", "from", "to", "CPU s", "to CPU s", "exponent"], rows)


def measure(growth: Growth, sizes: tuple[int, int], project: Path) -> list[float]:
    """CPU seconds at both sizes."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            word.format(folder=folder, project=project, a=sizes[0], b=sizes[1])
            for word in shlex.split(growth.arguments)
        ]
        done = subprocess.run(
            [sys.executable, str(HERE / f"{growth.script}.py"), *words],
            env=one_thread(),
            cwd=project,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{growth.script} failed:\n{done.stderr[-4000:]}")
    table = with_column(tables_of(done.stdout), growth)
    rows = [table.row(*(label.format(size=size) for label in growth.labels)) for size in sizes]
    return [number_of(row[growth.column]) for row in rows]


def with_column(tables: list[Table], growth: Growth) -> Table:
    for table in tables:
        if growth.column in table.header:
            return table
    raise SystemExit(f"{growth.script} prints no table with the column {growth.column}")


if __name__ == "__main__":
    main()
