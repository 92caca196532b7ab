"""``permafrost aggregate``: all score tables of a plan in, one leaderboard out."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_job, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument(
        "--plan", type=Path, required=True, help="recorded plan, names every score table"
    )
    parser.add_argument("--parquet", type=Path, required=True, help="leaderboard to write")
    parser.add_argument("--csv", type=Path, required=True, help="leaderboard to write, as text")
    parser.add_argument(
        "--stamp", type=Path, required=True, help="written last: this plan was aggregated"
    )


def run(arguments) -> None:
    from permafrost.core.outputs import whole_file
    from permafrost.plan.recorded import planned, read_plan
    from permafrost.report.leaderboard import read_scores, write_leaderboard
    from permafrost.report.terminal import format_leaderboard

    _, fingerprint = read_job(arguments)
    expected = {
        row["path"]: row["fingerprint"] for row in planned(read_plan(arguments.plan), "bootstrap")
    }
    tables = read_scores(expected, expect=expected)
    table = write_leaderboard(
        tables, arguments.parquet, arguments.csv, {"fingerprint": fingerprint, "stage": "aggregate"}
    )
    with whole_file(arguments.stamp) as partial:
        partial.write_text(f"{fingerprint}\n")
    print(format_leaderboard(table))
