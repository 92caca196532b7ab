"""The commands of all kinds of probes: predictions on the test split, from stores."""

from __future__ import annotations

from pathlib import Path

from permafrost.probes.job import ImageProbeJob, ProbeJob
from permafrost.stages import image_jobs
from permafrost.stages.arguments import add_compute, add_job, add_splits, by_split, read_job


def add_arguments(parser, kind) -> None:
    """Add the options of a `probes.kinds.ProbeKind`."""
    if kind.reads == "images":
        image_jobs.add_arguments(parser)
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
    job = _image_job(arguments, kind) if kind.reads == "images" else _feature_job(arguments, kind)
    probe(job)


def _feature_job(arguments, kind):
    spec, fingerprint = read_job(arguments)
    return ProbeJob.of(
        spec,
        kind.options_class(),
        stores=by_split(arguments.features),
        output=arguments.output,
        fingerprint=fingerprint,
        device=arguments.device,
        second_output=getattr(arguments, "second_output", None),
    )


def _image_job(arguments, kind):
    images = image_jobs.images_of(arguments)
    spec, fingerprint = image_jobs.located_job(arguments)
    return ImageProbeJob.of(
        spec,
        kind.options_class(),
        stores=images,
        card=arguments.card,
        output=arguments.output,
        fingerprint=fingerprint,
        device=arguments.device,
        threads=arguments.threads,
    )
