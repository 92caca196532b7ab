"""``permafrost methods``: the methods of a paper, tables of datasets and options, and BibTeX of what a run used."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.plan.recorded import current_plan, planned, read_plan, results_in
from permafrost.stages.arguments import add_results_folder


def add_arguments(parser) -> None:
    add_results_folder(parser)
    parser.add_argument("--bibtex", type=Path, help="write citations here, not below the text")


def run(arguments) -> None:
    text, tables, cited = methods_and_bibtex(arguments.results)
    if arguments.bibtex is not None:
        with whole_file(arguments.bibtex) as partial:
            partial.write_text(cited, encoding="utf-8")
    print("\n".join([text, tables, *([cited] if arguments.bibtex is None else [])]), end="")


def methods_and_bibtex(results: Path) -> tuple[str, str, str]:
    """The methods of a run in two paragraphs, its tables of datasets and options, and its citations as BibTeX.

    Raises
    ------
    PermafrostError : there is no run, or its tables do not belong to the last recorded plan.
    """
    from permafrost.core.tables import read_table
    from permafrost.report.explanations.leaderboard_state import describe_outdated
    from permafrost.report.tables.methods import bibtex, methods_tables, methods_text
    from permafrost.report.tables.shown import Shown

    results = results_in(results)
    plan = read_plan(current_plan(results))
    (made,) = planned(plan, "aggregate")
    table, metadata = read_table(results / Path(made["path"]).name)
    outdated = describe_outdated(table, metadata, plan)
    if outdated:
        # numbers of one plan must not be mixed with the tables of another
        raise PermafrostError(
            " ".join(outdated.split()),
            where=results,
            remedy="run snakemake, then this command again",
        )
    shown = Shown.of(table, results, metadata)
    comparisons = [row for rows in shown.comparisons.values() for row in rows]
    versions = metadata.get("score_versions", {})
    text = methods_text(plan, shown.rows, comparisons, versions)
    return text, methods_tables(plan, shown.rows), bibtex(plan)
