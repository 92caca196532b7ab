"""``permafrost published``: check published results, and compare them with your own."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.text import printable_name
from permafrost.plan.recorded import current_plan, leaderboard_in, read_plan
from permafrost.stages.tables import write_output
from permafrost.statistics.leaderboard.rows import distinct, overall


def add_arguments(parser) -> None:
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        help="torchgeo-bench's results (a file, or a folder of files), or results_and_parameters.csv of GEO-Bench-2",
    )
    add_duplicates(parser)
    parser.add_argument("--output", type=Path, help="table to write, .csv or .parquet")
    parser.add_argument("--leaderboard", type=Path, help="leaderboard.parquet of your own results")
    for name, meaning in (("backbone", "backbone"), ("dataset", "dataset"), ("method", "probe")):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="THEIRS=OURS",
            help=f"a published {name} and the {meaning} here that is the same",
        )


def add_duplicates(parser) -> None:
    """Add the option for two values of one configuration."""
    parser.add_argument(
        "--duplicates",
        choices=("refuse", "first", "last"),
        default="refuse",
        help="rule for two values of one configuration",
    )


def run(arguments) -> None:
    import pyarrow as pa

    from permafrost.statistics.leaderboard.published import read_published

    read = {path: read_published(path, duplicates=arguments.duplicates) for path in arguments.files}
    for path, one in read.items():
        print(_summary(path, one))
    if arguments.output is not None:
        write_output(arguments.output, pa.concat_tables([one.table() for one in read.values()]))
    rows = [row for one in read.values() for row in one.rows]
    if arguments.leaderboard is not None:
        _beside(rows, arguments)


def _summary(path: Path, one) -> str:
    counts = (
        f"{len({row.backbone for row in one.rows})} backbones, "
        f"{len({row.dataset for row in one.rows})} datasets"
    )
    taken = [
        f"{count} {what}"
        for count, what in (
            (one.identical, "rows that repeat another"),
            (one.same_value, "further rows of a configuration with its value and another interval"),
            (one.replaced, "further rows of a configuration with another value"),
            (one.aside, "rows of costs, measures, and metrics of an unknown range"),
        )
        if count
    ]
    left = f"; left out: {', '.join(taken)}" if taken else ""
    named = ", ".join(map(printable_name, one.unknown))
    kept = f"; columns that are not known, kept as text: {named}" if named else ""
    return f"{path}: {len(one.rows)} published scores, {counts}{left}{kept}"


def _beside(rows: list, arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.report.tables.beside import beside, pairs_block
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.statistics.leaderboard.published_table import given_names, wrong_names

    path = leaderboard_in(arguments.leaderboard)
    own = overall(read_table(path)[0].to_pylist())
    names = {}
    for what, kind in (("backbone", "backbone"), ("dataset", "dataset"), ("method", "probe")):
        names[f"{kind}s"] = pairs = given_names(what, getattr(arguments, what))
        for mistake in wrong_names(what, pairs, rows, distinct(own, kind), f"--{what}"):
            raise mistake
    plan = read_plan(current_plan(path.parent))
    print()
    print_blocks([pairs_block(beside(rows, own, plan, **names))])
