"""``permafrost run``: ``snakemake --profile local``, then the leaderboard and where the report is."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

SHOWN = 10  # backbones of each dataset and probe


def add_arguments(parser) -> None:
    parser.add_argument("--profile", default="local", help="profile for snakemake (default: local)")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of the outputs"
    )
    parser.add_argument(
        "snakemake", nargs=argparse.REMAINDER, help="further arguments for snakemake, after --"
    )


def run(arguments) -> int:
    extra = [argument for argument in arguments.snakemake if argument != "--"]
    command = [sys.executable, "-m", "snakemake", "--profile", arguments.profile, *extra]
    status = subprocess.run(command).returncode
    if status:
        return status
    print_end(arguments.results)
    return 0


def print_end(results: Path) -> None:
    """The last lines of a run that ended well: the answer, the page, and what to do next."""
    from permafrost.core.tables import read_table
    from permafrost.plan.recorded import current_plan, read_plan
    from permafrost.report.terminal import format_leaderboard

    print(_best(format_leaderboard(read_table(results / "leaderboard.parquet")[0])))
    print(f"Leaderboard: {results / 'leaderboard.csv'}")
    print(f"Report:      {(results / 'report' / 'index.html').resolve()} (open it in a browser)")
    plan = read_plan(current_plan(results))
    if all(entry["source"]["kind"] == "demo" for entry in plan["datasets"].values()):
        print("Next:        name your own images in config/config.yaml, as README.md shows")
    else:
        print(
            "Next:        `snakemake --profile local archive` packs results, plan and code version"
        )


def _best(leaderboard: str) -> str:
    """The printed leaderboard with the first `SHOWN` backbones of each dataset and probe."""
    blocks = []
    for block in leaderboard.split("\n\n"):
        lines = block.splitlines()
        rows = lines[2:] if len(lines) > 2 and lines[1].split()[0] == "rank" else []
        if len(rows) > SHOWN:
            more = f"        and {len(rows) - SHOWN} more: permafrost show"
            lines = [*lines[: 2 + SHOWN], more]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
