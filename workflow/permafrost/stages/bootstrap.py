"""``permafrost bootstrap``: scores with intervals from a table of predictions."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--predictions", type=Path, required=True, help="table of predictions")
    parser.add_argument(
        "--clean", type=Path, help="predictions on the images that were made harder"
    )
    parser.add_argument("--output", type=Path, required=True, help="table of scores to write")


def run(arguments) -> None:
    from permafrost.statistics.scores.score_table import BootstrapSpec, score_predictions

    spec, fingerprint = read_specification(arguments, BootstrapSpec)
    print(
        score_predictions(
            arguments.predictions,
            arguments.output,
            spec=spec,
            fingerprint=fingerprint,
            clean=arguments.clean,
        )
    )
