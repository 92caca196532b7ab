"""``permafrost report``: pages with figures, from leaderboard, predictions, comparisons, cards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from permafrost.core.specification import Specification
from permafrost.plan.recorded import (
    by_names,
    expected,
    extraction_logs,
    published_files,
    read_plan,
    stamp_of,
    stamped,
    tested_features,
)
from permafrost.report.archive.provenance import describe_machine
from permafrost.stages.arguments import add_job, add_results, read_specification


@dataclass(frozen=True, kw_only=True)
class ReportSpec(Specification):
    """The job's spec; `inputs` has a fingerprint per kind of table, the plan lists each table."""

    options: dict
    inputs: dict


def add_arguments(parser) -> None:
    add_job(parser, plan="recorded plan, names every input")
    add_results(parser)
    parser.add_argument("--standings", type=Path, required=True, help="standings over datasets")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument(
        "--stamp",
        type=Path,
        required=True,
        help="written last: fingerprint, and digests of all files",
    )


def run(arguments) -> None:
    from permafrost.core.stamps import refuse_altered, write_stamp
    from permafrost.report.page import Report

    spec, fingerprint = read_specification(arguments, ReportSpec)
    plan = read_plan(arguments.plan, arguments.results)
    gathered, _ = stamped(plan)
    refuse_altered(stamp_of(plan["results"], gathered), expect=gathered)
    Report(
        plan=plan,
        leaderboard=by_names(plan, "aggregate")[()],
        standings=arguments.standings,
        published=next(iter(published_files(plan)), None),
        cards=by_names(plan, "card", "dataset"),
        predictions=by_names(plan, "probe", "dataset", "backbone", "seed", "probe"),
        scores=by_names(plan, "bootstrap", "dataset", "backbone", "seed", "probe"),
        images=by_names(plan, "prepare", "dataset", "split"),
        features=tested_features(plan),
        logs=extraction_logs(plan),
        comparisons=by_names(plan, "compare", "dataset", "probe"),
        similarities=by_names(plan, "similarity", "dataset"),
        expect=expected(plan),
        title=spec.options["title"],
        examples=spec.options["examples"],
        picture_seed=spec.options["seed"],
        hardware=describe_machine(),
    ).write(arguments.output)
    files = [path for path in arguments.output.rglob("*") if path.is_file()]
    write_stamp(arguments.stamp, fingerprint, files)
    print(f"report: {arguments.output / 'index.html'}")
