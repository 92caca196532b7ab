"""``permafrost show``: the leaderboard as text."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument(
        "leaderboard", nargs="?", type=Path, default=Path("results/leaderboard.parquet")
    )


def run(arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.report.incomplete import headline, read_incomplete
    from permafrost.report.terminal import format_leaderboard

    print(format_leaderboard(read_table(arguments.leaderboard)[0]))
    if about := read_incomplete(arguments.leaderboard):
        print(headline(about))
