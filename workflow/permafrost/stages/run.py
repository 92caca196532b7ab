"""``permafrost run``: ``snakemake --profile local``, then the leaderboard and where the report is."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument("--profile", default="local", help="profile for snakemake (default: local)")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of the outputs"
    )
    parser.add_argument(
        "snakemake", nargs=argparse.REMAINDER, help="further arguments for snakemake, after --"
    )


def run(arguments) -> int:
    from permafrost.core.tables import read_table
    from permafrost.report.terminal import format_leaderboard

    extra = [argument for argument in arguments.snakemake if argument != "--"]
    command = [sys.executable, "-m", "snakemake", "--profile", arguments.profile, *extra]
    status = subprocess.run(command).returncode
    if status:
        return status
    print(format_leaderboard(read_table(arguments.results / "leaderboard.parquet")[0]))
    print(f"\nLeaderboard: {arguments.results / 'leaderboard.csv'}")
    print(f"Report:      {arguments.results / 'report' / 'index.html'}")
    return 0
