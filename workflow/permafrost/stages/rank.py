"""``permafrost rank``: rank any leaderboard, and say which ranks its data can tell apart."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.working import working
from permafrost.stages.published import add_duplicates
from permafrost.stages.tables import write_output
from permafrost.statistics.options import RankingSettings


def add_arguments(parser) -> None:
    parser.add_argument(
        "table",
        type=Path,
        help="CSV or parquet: a row per backbone and a column per dataset, or a row per score; or results of "
        "torchgeo-bench (also a folder) or GEO-Bench-2",
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="only rows with this value, for example bands=rgb",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="DATASET",
        help="leave out this dataset or column",
    )
    parser.add_argument(
        "--lower-is-better",
        action="append",
        default=[],
        metavar="DATASET",
        help="a dataset or metric with errors instead of scores",
    )
    parser.add_argument(
        "--missing",
        default=RankingSettings.missing,
        help="rule for missing scores, as ranking.missing of the configuration (default: %(default)s)",
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="leave out backbones without a score on every dataset",
    )
    parser.add_argument("--baseline", help="backbone that gains are relative to")
    parser.add_argument("--probe", help="only this probe, or method of published results")
    add_duplicates(parser)
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--output", type=Path, help="standings to write, .csv or .parquet")
    parser.add_argument("--figure", type=Path, help="figure to write: .svg, .png, .pdf or .json")


def run(arguments) -> None:
    from permafrost.core.text import printable
    from permafrost.report.tables.answer import answer, separated_said
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.statistics.leaderboard.given import ALL
    from permafrost.statistics.leaderboard.given_tables import read_given
    from permafrost.statistics.leaderboard.rows import distinct

    where = dict(map(_pair, arguments.where))
    if len(where) < len(arguments.where):
        raise PermafrostError(
            "two values of one column are asked for", where="--where", remedy="give one per column"
        )
    for path in filter(None, (arguments.output, arguments.figure)):
        if path.resolve() == arguments.table.resolve():
            raise PermafrostError(
                "the table itself would be overwritten", where=path, remedy="name another file"
            )
    given = read_given(
        arguments.table,
        where=where,
        without=arguments.without,
        lower_is_better=arguments.lower_is_better,
        duplicates=arguments.duplicates,
    ).of_probe(arguments.probe)
    given = given.complete() if arguments.complete else given
    if arguments.figure is not None:
        _check_figure(arguments.figure, given.probes)
    with working(f"ranking {arguments.table}"):
        table, tests, said = given.rank(
            missing=arguments.missing, baseline=arguments.baseline, seed=arguments.seed
        )
    for sentence in [*given.said, *said]:
        print(printable(sentence))
    print()
    rows = table.to_pylist()
    probes = distinct(rows, "probe")
    blocks = [
        answer(rows, group=ALL, probe=probe, tests=tests, warnings=separated_said(rows, ALL, probe))
        for probe in probes
    ]
    print_blocks([block for block in blocks if block is not None])
    if arguments.output is not None:
        write_output(arguments.output, table)
    if arguments.figure is not None:
        _draw(arguments.figure, rows, probes, arguments.table.stem)


def _pair(text: str) -> tuple[str, str]:
    column, sign, value = text.partition("=")
    if not (column and sign):
        raise PermafrostError(
            f"{text!r} names no column and value", where="--where", remedy="write COLUMN=VALUE"
        )
    return column, value


def _check_figure(path: Path, probes: list[str]) -> None:
    """Refuse a figure that cannot be drawn, before the ranking takes its time."""
    from permafrost.report.figures.files import check_ending

    check_ending(path)
    if len(probes) > 1:
        raise PermafrostError(
            f"the table has several probes: {', '.join(probes)}",
            where=path,
            remedy="name one of them for the figure: --probe",
        )


def _draw(path: Path, rows: list[dict], probes: list[str], name: str) -> None:
    from permafrost.report.figures.files import write_figure
    from permafrost.report.figures.standings import draw_standings
    from permafrost.report.tables.answer import UNCERTAINTIES, of_standings, verdict
    from permafrost.statistics.across_datasets.ranking import RANKED_BY
    from permafrost.statistics.leaderboard.given import ALL

    title = name if probes == [name] else f"{name}: {probes[0]}"
    found = of_standings(rows, group=ALL, probe=probes[0])
    ranked = found[RANKED_BY]
    note = verdict(found)
    if ranked[0]["uncertainty"] != "none":
        note += (
            f" Bars: {100 * ranked[0]['confidence']:g} % intervals over"
            f" {UNCERTAINTIES[ranked[0]['uncertainty']]}; to the right, the ranks that each may have, jointly."
        )
    write_figure(path, draw_standings(ranked, title=title, note=note))
