"""What the commands that run a backbone over images share: their arguments, and finding the images."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_compute, add_job, read_job


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
    add_compute(parser)
    parser.add_argument("--batch-size", type=int, default=64, help="images per forward pass")


def run(arguments, extract, **outputs) -> None:
    """Run `extract`(spec, images=, card=, fingerprint=, …, **outputs) on images that are surely there."""
    from permafrost.core.allocator import keep_freed_memory
    from permafrost.core.paths import substitute

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
    extract(
        spec,
        images=images,
        card=arguments.card,
        fingerprint=fingerprint,
        device=arguments.device,
        batch_size=arguments.batch_size,
        threads=arguments.threads,
        **outputs,
    )
