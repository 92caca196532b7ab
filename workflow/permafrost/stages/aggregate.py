"""``permafrost aggregate``: leaderboard and standings from all score tables of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.core.specification import Specification
from permafrost.plan.recorded import planned, read_plan
from permafrost.stages.arguments import add_job, add_results, planned_job, specified

_OUTPUTS = {
    "--parquet": "leaderboard to write",
    "--csv": "leaderboard to write, as text",
    "--standings": "standings over groups of datasets to write",
    "--standings-csv": "the same, as text",
    "--stamp": "written last: fingerprint, and digests of the others",
}

_PUBLISHED = {
    "--published": "published results to write, if the job has some",
    "--published-csv": "the same, as text",
}


@dataclass(frozen=True, kw_only=True)
class AggregateSpec(Specification):
    """The job's spec; `inputs` has a fingerprint per kind of table, the plan lists each table."""

    options: dict
    groups: list
    ranking: dict
    inputs: dict
    published: list = field(default_factory=list)
    left_out: list = field(default_factory=list)
    cells: list = field(default_factory=list)
    suite: dict = field(default_factory=dict)
    fit: str | None = None
    derived: dict[str, list[str]] = field(default_factory=dict)
    derived_datasets: list[str] = field(default_factory=list)


def add_arguments(parser) -> None:
    add_job(parser, plan="recorded plan, names every score table")
    add_results(parser)
    for option, meaning in _OUTPUTS.items():
        parser.add_argument(option, type=Path, required=True, help=meaning)
    for option, meaning in _PUBLISHED.items():
        parser.add_argument(option, type=Path, help=meaning)


def run(arguments) -> None:
    from permafrost.core.stamps import write_stamp
    from permafrost.statistics.across_datasets.standings_table import write_standings
    from permafrost.statistics.leaderboard.leaderboard import read_scores, write_leaderboard

    job = planned_job(arguments)
    spec, fingerprint = specified(job, AggregateSpec), job.fingerprint
    plan = read_plan(arguments.plan, arguments.results)
    expected = {
        row["path"]: row["fingerprint"]
        for stage in ("bootstrap", "measure", "profile")
        for row in planned(plan, stage)
    }
    tables = read_scores(expected, expect=expected)
    about: dict[str, Any] = {"fingerprint": fingerprint, "stage": "aggregate"}
    if spec.left_out:
        about["left_out"] = spec.left_out
    about |= {"suite": spec.suite} if spec.suite else {}
    about |= {"fit": spec.fit} if spec.fit else {}
    about |= {"derived": spec.derived} if spec.derived else {}
    about |= {"derived_datasets": spec.derived_datasets} if spec.derived_datasets else {}
    table = write_leaderboard(tables, arguments.parquet, arguments.csv, about, spec.cells)
    options: dict[str, Any] = {
        "groups": spec.groups,
        "ranking": spec.ranking,
        "comparison": spec.options,
    }
    options["cells"] = spec.cells
    write_standings(tables, arguments.standings, arguments.standings_csv, about, options)
    written = [
        arguments.parquet,
        arguments.csv,
        arguments.standings,
        arguments.standings_csv,
    ]
    if spec.published:
        from permafrost.statistics.leaderboard.published_table import write_published

        published = (arguments.published, arguments.published_csv)
        write_published(spec.published, job.places["published"], *published, about)
        written += published
    write_stamp(arguments.stamp, fingerprint, written)
    print(f"leaderboard: {table.num_rows} rows in {arguments.csv}; permafrost show prints it")
