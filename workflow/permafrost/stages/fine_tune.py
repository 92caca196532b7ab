"""``permafrost fine_tune``: image stores in, predictions of a backbone that is trained further out."""

from __future__ import annotations

from pathlib import Path

from . import extracting


def add_arguments(parser) -> None:
    extracting.add_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")


def run(arguments) -> None:
    from permafrost.core.allocator import keep_freed_memory
    from permafrost.probes.fine_tune.run import run_fine_tune

    images = extracting.images_of(arguments)
    keep_freed_memory()
    spec, fingerprint = extracting.located_job(arguments)
    run_fine_tune(
        spec,
        images=images,
        card=arguments.card,
        output=arguments.output,
        made=fingerprint,
        device=arguments.device,
        threads=arguments.threads,
    )
