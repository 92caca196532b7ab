"""``permafrost detection``: maps of layers in, the objects that a trained head finds out."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_compute, add_job, add_splits, by_split, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    add_splits(parser, "--features", "feature stores with maps to read")
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")
    parser.add_argument(
        "--detections", type=Path, required=True, help="folder of truth and detections to write"
    )
    add_compute(parser)


def run(arguments) -> None:
    from permafrost.core.allocator import keep_freed_memory
    from permafrost.probes.detection.run import run_detection

    keep_freed_memory()
    spec, fingerprint = read_job(arguments)
    run_detection(
        by_split(arguments.features),
        arguments.output,
        spec=spec,
        fingerprint=fingerprint,
        device=arguments.device,
        detections_output=arguments.detections,
    )
