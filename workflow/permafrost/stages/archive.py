"""``permafrost archive``: pack the outputs of a plan into a Workflow Run RO-Crate."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.plan.recorded import archived, current_plan, planned, read_plan
from permafrost.report.archive.deposit import write_deposit
from permafrost.report.archive.writing import write_archive
from permafrost.stages.methods import methods_and_bibtex


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
    deposit = parser.add_argument_group("for Zenodo")
    deposit.add_argument("--zenodo", type=Path, metavar="FOLDER", help="folder to write for upload")
    deposit.add_argument(
        "--creator",
        action="append",
        metavar="'FAMILY, GIVEN[; ORCID]'",
        help="author of the results (repeatable)",
    )
    deposit.add_argument("--licence", help="licence of the results, by Zenodo's id: cc-by-4.0")


def run(arguments) -> None:
    from permafrost.operate.stale import find_stale, refuse_stale
    from permafrost.report.explanations.leaderboard_state import headline, read_incomplete

    _check_deposit(arguments)
    path = arguments.plan or current_plan(Path("results"))
    plan = read_plan(path)
    results = Path(plan["results"])
    (leaderboard,) = (Path(row["path"]) for row in planned(plan, "aggregate"))
    about = read_incomplete(leaderboard)
    files = archived(plan, path)
    if about and about["plan"] == plan["plan"]:
        stale = {stale for stale, _ in find_stale(path, results, deep=True)} - {leaderboard}
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
    if arguments.zenodo is not None:
        _write_deposit(arguments, output, plan, results)


def _check_deposit(arguments) -> None:
    """Refuse a deposit that Zenodo would refuse, before packing."""
    named = {"--creator": arguments.creator, "--licence": arguments.licence}
    lacking = [option for option, value in named.items() if not value]
    given = [option for option, value in named.items() if value]
    if arguments.zenodo is not None and lacking:
        raise PermafrostError(
            f"a deposit at Zenodo needs {' and '.join(lacking)}",
            remedy="add --creator 'Family, Given' --licence cc-by-4.0 (or another of its licences)",
        )
    if arguments.zenodo is None and given:
        raise PermafrostError(f"{given[0]} needs --zenodo", remedy="add --zenodo FOLDER")


def _write_deposit(arguments, archive: Path, plan: dict, results: Path) -> None:
    methods, tables, cited = methods_and_bibtex(results)
    write_deposit(
        arguments.zenodo,
        archive,
        plan,
        creators=arguments.creator,
        licence=arguments.licence,
        methods=methods,
        tables=tables,
        cited=cited,
    )
    print(f"{arguments.zenodo}: for an upload to Zenodo, see README.txt there")
