"""``permafrost archive``: the outputs of a plan in, one Workflow Run RO-Crate out."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument(
        "--plan", type=Path, help="recorded plan (default: the one recorded last in results/plans)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="zip to write (default: results/archive/PLAN.zip, or PLAN-incomplete.zip)",
    )
    parser.add_argument(
        "--include-stores", action="store_true", help="also pack image and feature stores"
    )


def run(arguments) -> None:
    from permafrost.plan.recorded import archived, current_plan, planned, read_plan
    from permafrost.plan.stale import find_stale, refuse_stale
    from permafrost.report.archive.writing import write_archive
    from permafrost.report.explanations.leaderboard_state import headline, read_incomplete

    path = arguments.plan or current_plan(Path("results"))
    plan = read_plan(path)
    results = Path(plan["results"])
    (leaderboard,) = (Path(row["path"]) for row in planned(plan, "aggregate"))
    about = read_incomplete(leaderboard)
    files = archived(plan, path)
    if about and about["plan"] == plan["plan"]:
        stale = {stale for stale, _ in find_stale(path, results)} - {leaderboard}
        files = [file for file in files if file.exists() and file not in stale]
    else:
        about = None
        refuse_stale(path, results, stores=arguments.include_stores)
    name = f"{plan['plan'][:12]}{'-incomplete' if about else ''}.zip"
    output = arguments.output or results / "archive" / name
    summary = write_archive(
        plan=plan,
        files=files,
        root=Path.cwd(),
        output=output,
        include_stores=arguments.include_stores,
        incomplete=headline(about) if about else None,
    )
    print(f"{summary}\n{output}")
    if about:
        print(headline(about))
