"""The commands of all kinds of probes: stores in, predictions on the test split out."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import extracting
from permafrost.stages.arguments import add_compute, add_job, add_splits, by_split, read_job


def add_arguments(parser, kind) -> None:
    """The options of a `probes.kinds.ProbeKind`."""
    if kind.reads == "images":
        extracting.add_arguments(parser)
    else:
        add_job(parser)
        add_splits(parser, "--features", "feature stores to read")
        add_compute(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of predictions to write")
    if kind.reads in ("patches", "maps"):
        parser.add_argument(
            "--second-output",
            type=Path,
            required=kind.leaves is not None,
            help=f"folder of {kind.leaves or 'predicted masks, or their store,'} to write",
        )


def run(arguments, kind) -> None:
    """Run a probe of a kind."""
    probe = kind.load()
    if kind.reads == "images":
        _on_images(arguments, probe)
    else:
        _on_features(arguments, probe)


def _on_features(arguments, probe) -> None:
    spec, fingerprint = read_job(arguments)
    probe(
        by_split(arguments.features),
        arguments.output,
        spec=spec,
        fingerprint=fingerprint,
        device=arguments.device,
        second_output=getattr(arguments, "second_output", None),
    )


def _on_images(arguments, probe) -> None:
    images = extracting.images_of(arguments)
    spec, fingerprint = extracting.located_job(arguments)
    probe(
        spec,
        images=images,
        card=arguments.card,
        output=arguments.output,
        fingerprint=fingerprint,
        device=arguments.device,
        threads=arguments.threads,
    )
