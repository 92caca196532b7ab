"""``permafrost incomplete``: leaderboard and report of the successful jobs of a failed run."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from permafrost.core.plugins import add_plugins, places_of
from permafrost.operate.failures import read_failures
from permafrost.plan.recorded import read_plan


def add_arguments(parser) -> None:
    parser.add_argument(
        "--failures",
        type=Path,
        default=Path("results/logs/failures.json"),
        help="record of the jobs that failed (default: results/logs/failures.json)",
    )
    parser.add_argument("--list", action="store_true", help="only list failed jobs")


def run(arguments) -> None:
    from permafrost.report.explanations.leaderboard_state import describe, format_failures, headline

    failed = read_failures(arguments.failures)
    failures = [asdict(failure) for failure in failed["failures"]]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(f"\n{format_failures(failures, width=width)}", flush=True)
    if arguments.list:
        return
    from permafrost.operate.succeeded import (
        are_made,
        read_made_scores,
        write_made_page,
        write_made_tables,
    )

    plan = read_plan(failed["plan"])
    add_plugins(places_of(plan["config"]))
    results = Path(plan["results"])
    tables, missing = read_made_scores(plan, failed["failures"])
    about = describe(plan, failures, missing)
    if not missing and are_made(plan, "compare") and are_made(plan, "similarity"):
        return
    print(f"\n{headline(about)}", flush=True)
    if not tables:
        print("No result of this plan exists yet, so there is no leaderboard.")
        return
    leaderboard = results / "leaderboard.parquet"
    if missing:
        write_made_tables(plan, tables, about, failed["aggregate"], failed["published"])
    elif not are_made(plan, "aggregate"):
        return
    write_made_page(plan, leaderboard, about, failed["compare"], failed["report"]["options"])
    print(
        "Leaderboard and report contain the successful jobs and are marked incomplete:\n"
        f"  {results / 'leaderboard.csv'}\n  {results / 'report' / 'index.html'}\n"
        "Run the same command again to compute only the missing results; permafrost archive packs the existing ones."
    )
