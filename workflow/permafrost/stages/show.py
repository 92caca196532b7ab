"""``permafrost show``: print the ranking and the leaderboard."""

from __future__ import annotations

from pathlib import Path

from permafrost.plan.recorded import current_plan, leaderboard_in, read_plan


def add_arguments(parser) -> None:
    parser.add_argument(
        "leaderboard",
        nargs="?",
        type=Path,
        default=Path("results/leaderboard.parquet"),
        help="leaderboard.parquet, or the folder of results that holds it",
    )
    parser.add_argument("--group", help="only rank over this group of datasets")
    parser.add_argument("--probe", help="only show this probe")
    parser.add_argument("--dataset", help="only show this dataset")
    parser.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="differences of two backbones"
    )


def run(arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.report.explanations.leaderboard_state import (
        KEY,
        describe_outdated,
        headline,
        policy_words,
        suite_words,
    )
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.shown import Shown

    path = leaderboard_in(arguments.leaderboard)
    table, metadata = read_table(path)
    results = path.parent
    incomplete = metadata.get(KEY)
    plan = None
    # without plans, the leaderboard was copied from its folder of results
    if (results / "plans").is_dir():
        plan = read_plan(current_plan(results))
        ours = incomplete is not None and incomplete["plan"] == plan["plan"]
        notice = None if ours else describe_outdated(table, metadata, plan)
        if notice:
            print(notice, end="\n\n")
    shown = Shown.of(table, results, metadata)
    chosen = {"probe": arguments.probe, "dataset": arguments.dataset, "group": arguments.group}
    print_blocks(shown.blocks(compare=arguments.compare, **chosen))
    # a dataset that fits no backbone has no table
    gone = (
        {one["dataset"] for one in plan.get("left_out", [])} - plan["datasets"].keys()
        if plan
        else ()
    )
    if gone and not notice:
        print(f"\nNo backbone fits {', '.join(sorted(gone))}: `permafrost plan` says why.")
    for said in (suite_words(metadata.get("suite")), policy_words(metadata.get("fit"))):
        if said:
            print(f"\n{said}")
    if incomplete:
        print(f"\n{headline(incomplete)}")
