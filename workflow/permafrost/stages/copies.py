"""``permafrost copies``: test images of one dataset that are images of another one."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.working import working
from permafrost.plan.recorded import current_plan, read_plan, results_in
from permafrost.stages.arguments import add_results_folder


def add_arguments(parser) -> None:
    add_results_folder(parser)
    parser.add_argument("--dataset", help="only pairs of this dataset")
    parser.add_argument(
        "--features",
        metavar="BACKBONE",
        help="compare features of this backbone, not pixels: possible copies that were cut, mirrored or changed",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the counts, or the suspects, as JSON"
    )
    parser.add_argument(
        "--output", type=Path, help="table of the images to write, .csv or .parquet"
    )


def run(arguments) -> None:
    import pyarrow as pa

    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.copied import COLUMNS, CopyResults, suspect_block, suspect_table
    from permafrost.stages.tables import write_output

    results = results_in(arguments.results)
    plan = read_plan(current_plan(results), results)
    images = CopyResults(plan, lambda row: Path(row["path"]))
    if arguments.features is not None:
        with working("comparing features"):
            rows = images.suspected(arguments.features, arguments.dataset)
        if arguments.output:
            write_output(arguments.output, suspect_table(rows))
        if arguments.json:
            print(json.dumps(rows, indent=1, ensure_ascii=False))
        else:
            print_blocks([suspect_block(rows, arguments.features)])
        return
    with working("comparing images"):
        found = images.copied(arguments.dataset)
    if arguments.output:
        schema = pa.schema([(name, pa.string()) for name in COLUMNS])
        write_output(arguments.output, pa.Table.from_pylist(found.rows, schema))
    if arguments.json:
        print(json.dumps(found.pairs, indent=1, ensure_ascii=False))
    else:
        print_blocks([found.block()])
