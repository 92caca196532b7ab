"""``permafrost show``: print the ranking and the leaderboard, scores on slices of test sets, ensembles, areas under
curves of label shares, losses of transfers, or portfolios of backbones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from permafrost.core.errors import PermafrostError, look_up
from permafrost.plan.recorded import current_plan, leaderboard_in, read_plan
from permafrost.stages.run import add_against, print_standing


def add_arguments(parser) -> None:
    parser.add_argument(
        "leaderboard",
        nargs="?",
        type=Path,
        default=Path("results/leaderboard.parquet"),
        help="leaderboard.parquet, or the folder of results that holds it",
    )
    add_against(parser)
    parser.add_argument("--group", help="only rank over this group of datasets")
    parser.add_argument("--probe", help="only show this probe")
    parser.add_argument("--dataset", help="only show this dataset")
    parser.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="differences of two backbones"
    )
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="scores on slices of the test sets: group, latitude, latitude:30, cell, cell:5, "
        "cell:500km, season, month, year, fold, distance, or FILE:COLUMN of a CSV or parquet file with sample_id "
        "or group_id",
    )
    parser.add_argument(
        "--ensembles",
        action="store_true",
        help="averages of the probabilities of pairs and of greedily selected backbones, and what they add",
    )
    parser.add_argument(
        "--shares",
        action="store_true",
        help="areas under the curves of derived datasets with several shares of labels",
    )
    parser.add_argument(
        "--transfers",
        action="store_true",
        help="scores of transfers, trained on one dataset and tested on another, and their differences to training on "
        "the same dataset",
    )
    parser.add_argument(
        "--portfolios",
        action="store_true",
        help="small sets of backbones that contain, for every dataset, one nearly as good as the best of all",
    )
    parser.add_argument(
        "--backbone", help="with --by: this backbone, not the best of each dataset and probe"
    )
    parser.add_argument(
        "--metric", help="with --by or --ensembles: this metric, not the primary one"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print study, standings, scores and differences as JSON, with null for what is not known",
    )


def run(arguments) -> None:
    from permafrost.core.tables import read_table
    from permafrost.report.explanations.leaderboard_state import (
        KEY,
        describe_outdated,
        headline,
        policy_words,
        suite_words,
    )
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.shown import Shown

    _check(arguments)
    path = leaderboard_in(arguments.leaderboard)
    if arguments.against is not None:
        print_standing(path.parent, arguments.against)
        return
    table, metadata = read_table(path)
    results = path.parent
    incomplete = metadata.get(KEY)
    plan, notice = None, None
    # without plans, the leaderboard was copied from its folder of results
    if (results / "plans").is_dir():
        plan = read_plan(current_plan(results))
        ours = incomplete is not None and incomplete["plan"] == plan["plan"]
        notice = None if ours else describe_outdated(table, metadata, plan)
        if notice:
            print(notice, end="\n\n", file=sys.stderr if arguments.json else None)
    shown = Shown.of(table, results, metadata)
    chosen = {"probe": arguments.probe, "dataset": arguments.dataset, "group": arguments.group}
    if arguments.by is not None:
        _show_slices(arguments, shown.rows, results)
        return
    if arguments.ensembles:
        _show_ensembles(arguments, shown.rows, results)
        return
    if arguments.portfolios:
        _show_portfolios(arguments, shown.rows, metadata.get("derived_datasets", ()))
        return
    if arguments.shares or arguments.transfers:
        _show_several(arguments, results)
        return
    if arguments.json:
        print(
            json.dumps(
                shown.values(compare=arguments.compare, **chosen), indent=2, ensure_ascii=False
            )
        )
        return
    print_blocks(shown.blocks(compare=arguments.compare, **chosen))
    # a dataset that fits no backbone has no table
    gone = (
        {one["dataset"] for one in plan.get("left_out", [])} - plan["datasets"].keys()
        if plan
        else ()
    )
    if gone and not notice:
        print(f"\nNo backbone fits {', '.join(sorted(gone))}: `permafrost plan` says why.")
    for said in (suite_words(metadata.get("suite")), policy_words(metadata.get("fit"))):
        if said:
            print(f"\n{said}")
    if incomplete:
        print(f"\n{headline(incomplete)}")


def _check(arguments) -> None:
    """Refuse options that do not belong together."""
    ways = ("by", "ensembles", "shares", "transfers", "portfolios")
    given = [f"--{name}" for name in ways if getattr(arguments, name) not in (None, False)]
    if len(given) > 1:
        raise PermafrostError(
            f"{given[0]} does not go with {given[1]}",
            where="permafrost show",
            remedy="give one of them",
        )
    chosen = given[0] if given else None
    if arguments.json and chosen:
        raise PermafrostError(
            f"--json does not go with {chosen}",
            where="permafrost show",
            remedy="read it in Python, with `Results`",
        )
    belong = {
        "backbone": ("--by",),
        "metric": ("--by", "--ensembles"),
        "group": (None,),
        "compare": (None,),
        "dataset": (None, "--by", "--ensembles"),
    }
    for name, to in belong.items():
        if getattr(arguments, name) is None or chosen in to:
            continue
        if chosen is None:
            problem, remedy = f"belongs to {' or '.join(map(str, to))}", f"give {to[0]}, too"
        else:
            problem, remedy = f"does not go with {chosen}", f"leave it out, or leave out {chosen}"
        raise PermafrostError(f"--{name} {problem}", where="permafrost show", remedy=remedy)


def _show_slices(arguments, rows: list[dict], results: Path) -> None:
    """Print the slices of each evaluation; where a dataset has none, the reason."""
    from permafrost.report.tables.sliced import SlicedResults, slice_block
    from permafrost.statistics.slices.labels import slicing

    plan = read_plan(current_plan(results), results)
    sliced = SlicedResults(plan, lambda row: Path(row["path"]), rows)
    asked = {name: getattr(arguments, name) for name in ("dataset", "probe", "backbone")}
    by = slicing(arguments.by)
    _print_each(
        sliced.evaluations(**asked),
        lambda row: [slice_block(sliced.scores(row, by, metric=arguments.metric))],
        "no slices",
    )


def _show_ensembles(arguments, rows: list[dict], results: Path) -> None:
    """Print the ensembles of each dataset and probe; where there are none, the reason."""
    from permafrost.report.tables.ensembles import WAYS, EnsembleResults, ensemble_block

    plan = read_plan(current_plan(results), results)
    known = EnsembleResults(plan, lambda row: Path(row["path"]), rows)
    _print_each(
        known.evaluations(dataset=arguments.dataset, probe=arguments.probe),
        lambda row: [
            ensemble_block(row, way, known.ensembles(row, way, arguments.metric)) for way in WAYS
        ],
        "no ensembles",
    )


def _show_portfolios(arguments, rows: list[dict], derived) -> None:
    """Print the portfolios of each probe."""
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.portfolio import each_portfolio, portfolio_block
    from permafrost.statistics.leaderboard.seeds import merge_seeds

    chosen = [row for row in merge_seeds(rows) if arguments.probe in (None, row["probe"])]
    blocks = [portfolio_block(*found) for found in each_portfolio(chosen, derived)]
    if not blocks:
        raise PermafrostError(
            "no probe has three datasets with scores of every backbone, and two backbones",
            where="permafrost show --portfolios",
            remedy="add datasets; derived ones do not count",
        )
    print_blocks(blocks)


def _show_several(arguments, results: Path) -> None:
    """Print areas under curves of label shares, or losses of transfers."""
    from permafrost.report.tables.blocks import print_blocks
    from permafrost.report.tables.several import (
        SeveralResults,
        area_block,
        each_area,
        each_loss,
        loss_blocks,
    )

    plan = read_plan(current_plan(results), results)
    known = SeveralResults(plan, lambda row: Path(row["path"]))
    if arguments.probe is not None:
        look_up(plan["probes"], arguments.probe, "these results have no probe")
        plan = {**plan, "probes": {arguments.probe: plan["probes"][arguments.probe]}}
    if arguments.shares:
        blocks = [area_block(*found) for found in each_area(plan, known.runs)]
        what, key = "shares of labels", "share: [0.01, 0.1]"
    else:
        blocks = [one for found in each_loss(plan, known.runs) for one in loss_blocks(*found)]
        what, key = "a transfer", "transfer: {of: [a, b]}"
    if not blocks:
        raise PermafrostError(
            f"no derived dataset of this run with {what} has predictions",
            where=results,
            remedy=f"add one under derived_datasets, with {key}, and run snakemake",
        )
    print_blocks(blocks)


def _print_each(rows: list[dict], blocks_of, nothing: str) -> None:
    """Print the blocks of each evaluation, or why it has none; raise the first reason if none has any."""
    from permafrost.report.tables.blocks import Block, print_blocks

    blocks, errors = [], []
    for row in rows:
        try:
            blocks += blocks_of(row)
        except PermafrostError as error:
            errors.append(error)
            blocks.append(Block(f"{row['dataset']} · {row['probe']}: {nothing}. {error}", []))
    if len(errors) == len(blocks):
        raise errors[0]
    print_blocks(blocks)
