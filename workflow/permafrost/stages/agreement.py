"""``permafrost agreement``: whether features of one place by two sensors resemble each other."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.plan.recorded import current_plan, read_plan, results_in


def add_arguments(parser) -> None:
    parser.add_argument("dataset", help="dataset of one sensor")
    parser.add_argument("other", help="dataset of another sensor, with the same names of samples")
    parser.add_argument(
        "--backbones",
        nargs=2,
        metavar=("A", "B"),
        help="compare A on the first dataset with B on the second (default: each backbone with itself)",
    )
    parser.add_argument(
        "--split", default="test", help="train, val, test or all (default: %(default)s)"
    )
    parser.add_argument(
        "--raw", action="store_true", help="do not subtract the mean of each sensor first"
    )
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="folder of results, or of a project"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--output", type=Path, help="table to write, .csv or .parquet")


def run(arguments) -> None:
    import pyarrow as pa

    from permafrost.report.tables.agreeing import AgreementResults, agreement_block
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.stages.tables import write_output

    results = results_in(arguments.results)
    plan = read_plan(current_plan(results), results)
    rows = AgreementResults(plan, lambda row: Path(row["path"])).agreeing(
        arguments.dataset,
        arguments.other,
        [tuple(arguments.backbones)] if arguments.backbones else [],
        split=arguments.split,
        centred=not arguments.raw,
    )
    if arguments.output:
        write_output(arguments.output, pa.Table.from_pylist(rows))
    if arguments.json:
        # NaN is not JSON
        plain = json.loads(json.dumps(rows), parse_constant=lambda _: None)
        print(json.dumps(plain, indent=1, ensure_ascii=False))
    else:
        print_blocks([agreement_block(rows)])
