"""``permafrost select``: feature stores of a derived dataset, from those of others."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, add_splits, by_split, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument(
        "--card", type=Path, required=True, help="card of the derived dataset, next to its stores"
    )
    parser.add_argument("--features", type=Path, required=True, help="folder of all features")
    add_splits(parser, "--output", "feature stores to write")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments) -> None:
    from permafrost.data.store.card import read_card
    from permafrost.features.select import SelectSpec, select

    spec, fingerprint = read_specification(arguments, SelectSpec)
    select(
        spec,
        features=arguments.features,
        card=read_card(arguments.card, expect=spec.inputs.rows),
        images=arguments.card.parent,
        outputs=by_split(arguments.output),
        fingerprint=fingerprint,
    )
