"""``permafrost compare``: paired differences from the predictions of all backbones."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages.arguments import add_job, read_specification


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument(
        "--results", type=Path, required=True, help="folder that holds predictions/"
    )
    parser.add_argument("--output", type=Path, required=True, help="table of comparisons to write")


def run(arguments) -> None:
    from permafrost.statistics.scores.comparison_table import CompareSpec, compare_predictions

    spec, fingerprint = read_specification(arguments, CompareSpec)
    compare_predictions(
        arguments.results / "predictions", arguments.output, spec=spec, fingerprint=fingerprint
    )
