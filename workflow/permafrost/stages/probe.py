"""The commands of all kinds of probes: predictions on the test split, from stores."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from permafrost.probes.job import ImageProbeJob, ProbeJob
from permafrost.stages import image_jobs
from permafrost.stages.arguments import add_compute, add_job, add_splits, by_split, read_job

#: how a probe of maps runs on folds; imported, and part of a job's code, only for a derived dataset
POOLING = {"folds": "permafrost.probes.dense.folds:run_on_folds"}


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
    if kind.reads == "images":
        probe(_image_job(arguments, kind))
        return
    spec, fingerprint = read_job(arguments)
    job = ProbeJob.of(
        spec,
        kind.options_class(),
        stores=by_split(arguments.features),
        output=arguments.output,
        fingerprint=fingerprint,
        device=arguments.device,
        second_output=getattr(arguments, "second_output", None),
    )
    if kind.reads == "embeddings" or "rows" not in spec:
        probe(job)
        return
    module, _, name = POOLING["folds"].partition(":")
    getattr(import_module(module), name)(probe, job)


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
