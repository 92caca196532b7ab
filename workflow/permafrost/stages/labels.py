"""``permafrost labels``: suspected wrong labels, and scores without them."""

from __future__ import annotations

import json
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.working import working
from permafrost.plan.recorded import current_plan, read_plan, results_in
from permafrost.stages.arguments import add_results_folder


def add_arguments(parser) -> None:
    add_results_folder(parser)
    parser.add_argument(
        "--dataset", help="only this dataset (default: all whose images have classes)"
    )
    parser.add_argument(
        "--probe", help="judge by this probe (default: linear if it was run, else the first)"
    )
    parser.add_argument(
        "--backbones",
        nargs="+",
        metavar="NAME",
        help="judge by these (default: all that read images)",
    )
    parser.add_argument("--seed", type=int, help="judge by this seed (default: the lowest)")
    parser.add_argument(
        "--json", action="store_true", help="print summary, backbones and suspects as JSON"
    )
    parser.add_argument(
        "--output", type=Path, help="table of all images to write, .csv or .parquet"
    )


def run(arguments) -> None:
    import pyarrow as pa

    from permafrost.report.tables.blocks import Block, print_blocks
    from permafrost.report.tables.suspected import LabelResults, backbone_block, suspect_block
    from permafrost.stages.tables import write_output

    results = results_in(arguments.results)
    plan = read_plan(current_plan(results), results)
    source = LabelResults(plan, lambda row: Path(row["path"]))
    names = [arguments.dataset] if arguments.dataset else source.datasets()
    if not names:
        raise PermafrostError(
            "no dataset has both classes of images and predictions of backbones that read images",
            where=results,
            remedy="add a classification dataset, and run snakemake",
        )
    asked = {key: getattr(arguments, key) for key in ("probe", "seed", "backbones")}
    found, errors = [], {}
    for name in names:
        try:
            with working(f"judging the labels of {name}"):
                found.append(source.judged(name, **asked))
        except PermafrostError as error:
            errors[name] = error
    if not found:
        raise errors[names[0]]
    rows = [one.images() for one in found]
    if arguments.output:
        write_output(arguments.output, pa.Table.from_pylist([row for each in rows for row in each]))
    if arguments.json:
        made = [
            one.summary()
            | {"by_backbone": one.backbones(), "suspected": [row for row in each if row["suspect"]]}
            for one, each in zip(found, rows, strict=True)
        ]
        made += [{"dataset": name, "problem": str(error)} for name, error in errors.items()]
        # NaN is not JSON
        plain = json.loads(json.dumps(made), parse_constant=lambda _: None)
        print(json.dumps(plain, indent=1, ensure_ascii=False))
        return
    blocks = [
        block
        for one, each in zip(found, rows, strict=True)
        for block in (suspect_block(one, each), backbone_block(one))
    ]
    blocks += [Block(f"{name}: not judged. {error}", []) for name, error in errors.items()]
    print_blocks(blocks)
