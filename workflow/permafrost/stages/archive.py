"""``permafrost archive``: the outputs of a plan in, one Workflow Run RO-Crate out."""

from __future__ import annotations

from pathlib import Path


def add_arguments(parser) -> None:
    parser.add_argument("--plan", type=Path, required=True, help="recorded plan")
    parser.add_argument("--output", type=Path, required=True, help="zip to write")
    parser.add_argument(
        "--include-stores", action="store_true", help="also pack image and feature stores"
    )


def run(arguments) -> None:
    from permafrost.plan.recorded import archived, read_plan
    from permafrost.plan.stale import refuse_stale
    from permafrost.report.archive import write_archive

    plan = read_plan(arguments.plan)
    refuse_stale(arguments.plan, Path(plan["results"]), stores=arguments.include_stores)
    print(
        write_archive(
            plan=plan,
            files=archived(plan, arguments.plan),
            root=Path.cwd(),
            output=arguments.output,
            include_stores=arguments.include_stores,
        )
    )
