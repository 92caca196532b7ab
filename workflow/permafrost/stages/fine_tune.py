"""``permafrost fine_tune``: image stores in, predictions of a backbone that is trained further out."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_compute, add_job, limit_threads, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    parser.add_argument(
        "--card",
        type=Path,
        required=True,
        help="the dataset's card; its image stores lie beside it",
    )
    parser.add_argument(
        "--prepare-spec", help="job that makes image stores that were deleted again"
    )
    parser.add_argument("--prepare-code", help="hash of the sources of that job")
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")
    add_compute(parser)


def run(arguments) -> None:
    limit_threads(arguments.threads)
    from permafrost.core.allocator import keep_freed_memory
    from permafrost.core.paths import substitute
    from permafrost.probes.fine_tune.run import run_fine_tune

    from .remake import ensure_images

    images = ensure_images(
        arguments.card,
        spec=arguments.prepare_spec,
        code=arguments.prepare_code,
        data=arguments.data,
        workers=arguments.threads,
    )
    keep_freed_memory()
    spec, fingerprint = read_job(arguments)
    spec["entry"] = substitute(spec["entry"], arguments.data)
    run_fine_tune(
        spec,
        images=images,
        card=arguments.card,
        output=arguments.output,
        made=fingerprint,
        device=arguments.device,
        threads=arguments.threads,
    )
