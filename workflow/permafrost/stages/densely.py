"""What the commands of probes of pixels share: their arguments, and the call."""

from __future__ import annotations

from pathlib import Path

from .arguments import add_compute, add_job, add_splits, by_split, read_job


def add_arguments(parser) -> None:
    add_job(parser)
    add_splits(parser, "--features", "feature stores with maps to read")
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")
    parser.add_argument("--masks", type=Path, help="folder or store of predicted masks to write")
    add_compute(parser)


def run(arguments, load) -> None:
    """Call the probe that `load` imports."""
    spec, fingerprint = read_job(arguments)
    load()(
        by_split(arguments.features),
        arguments.output,
        spec=spec,
        fingerprint=fingerprint,
        device=arguments.device,
        masks_output=arguments.masks,
    )
