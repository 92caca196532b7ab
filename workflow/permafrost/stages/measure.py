"""``permafrost measure``: feature metrics of one feature store."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--features", type=Path, required=True, help="feature store to measure")
    parser.add_argument("--views", type=Path, help="store of augmented views to measure as well")
    parser.add_argument("--output", type=Path, required=True, help="table of measures to write")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments) -> None:
    from permafrost.statistics.measures.feature_measures import MeasureSpec, measure_features

    spec, fingerprint = read_specification(arguments, MeasureSpec)
    print(
        measure_features(
            arguments.features,
            arguments.output,
            views=arguments.views,
            spec=spec,
            fingerprint=fingerprint,
        )
    )
