"""``permafrost extract_harder``: feature stores of a dataset with harder images."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import image_jobs
from permafrost.stages.arguments import add_splits, by_split


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    image_jobs.add_batch_size(parser)
    parser.add_argument(
        "--rows", type=Path, required=True, help="folder of the derived dataset's image stores"
    )
    parser.add_argument("--features", type=Path, required=True, help="folder of all features")
    add_splits(parser, "--output", "feature stores to write")


def run(arguments) -> None:
    from permafrost.features.harder import HarderSpec, extract_harder

    image_jobs.run(
        arguments,
        extract_harder,
        HarderSpec,
        rows=arguments.rows,
        features=arguments.features,
        outputs=by_split(arguments.output),
    )
