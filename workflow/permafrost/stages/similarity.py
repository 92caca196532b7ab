"""``permafrost similarity``: pairwise CKA between the backbones of a dataset."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--results", type=Path, required=True, help="folder that holds features/")
    parser.add_argument("--output", type=Path, required=True, help="table of pairs to write")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments) -> None:
    from permafrost.statistics.measures.similarities import SimilaritySpec, compare_features

    spec, fingerprint = read_specification(arguments, SimilaritySpec)
    print(
        compare_features(
            arguments.results / "features",
            arguments.output,
            spec=spec,
            fingerprint=fingerprint,
        )
    )
