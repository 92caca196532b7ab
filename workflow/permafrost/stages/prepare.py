"""``permafrost prepare``: a dataset's files in, three image stores and a card out."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_job, add_splits, by_split, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    add_splits(parser, "--output", "image stores to write")
    parser.add_argument("--card", type=Path, required=True, help="card to write")
    parser.add_argument("--workers", type=int, default=2, help="threads that decode images")


def run(arguments) -> None:
    from permafrost.core.paths import substitute
    from permafrost.data.prepare import prepare

    spec, fingerprint = read_job(arguments)
    spec["entry"] = substitute(spec["entry"], arguments.data)
    prepare(
        spec,
        outputs=by_split(arguments.output),
        card_path=arguments.card,
        fingerprint=fingerprint,
        workers=arguments.workers,
    )
