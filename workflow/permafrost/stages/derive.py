"""``permafrost derive``: feature stores of a derived backbone, from the stores of others."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, add_splits, by_split, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument(
        "--features", type=Path, required=True, help="folder of the features of this dataset"
    )
    add_splits(parser, "--output", "feature stores to write")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments) -> None:
    from permafrost.features.derived.derive import DeriveSpec, derive

    spec, fingerprint = read_specification(arguments, DeriveSpec)
    derive(
        spec,
        features=arguments.features,
        outputs=by_split(arguments.output),
        fingerprint=fingerprint,
    )
