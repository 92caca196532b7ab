"""``permafrost show``: the leaderboard as text."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument(
        "leaderboard", nargs="?", type=Path, default=Path("results/leaderboard.parquet")
    )


def run(arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.plan.recorded import current_plan, read_plan
    from permafrost.report.explanations.leaderboard_state import KEY, describe_outdated, headline
    from permafrost.report.tables.terminal import format_leaderboard

    table, metadata = read_table(arguments.leaderboard)
    results = arguments.leaderboard.parent
    incomplete = metadata.get(KEY)
    # a leaderboard that was copied out of its results belongs to no plan here
    if (results / "plans").is_dir():
        plan = read_plan(current_plan(results))
        ours = incomplete is not None and incomplete["plan"] == plan["plan"]
        notice = None if ours else describe_outdated(table, metadata, plan)
        if notice:
            print(notice, end="\n\n")
    print(format_leaderboard(table))
    if incomplete:
        print(headline(incomplete))
