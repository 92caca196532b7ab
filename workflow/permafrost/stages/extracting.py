"""What the commands that run a backbone over images share: their arguments, and finding the images."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.specification import from_json
from permafrost.stages.arguments import add_compute, add_job, planned_job


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
        "--prepare-job", help="fingerprint of the job that makes image stores again, with --job"
    )
    parser.add_argument("--prepare-spec", help="canonical JSON of that job, with --spec")
    parser.add_argument("--prepare-code", help="hash of the sources of that job, with --spec")
    add_compute(parser)


def add_batch_size(parser) -> None:
    parser.add_argument("--batch-size", type=int, default=64, help="images per forward pass")


def images_of(arguments) -> dict[str, Path]:
    """Image stores by split, which are made again where they were deleted."""
    from permafrost.stages.remake import ensure_images

    return ensure_images(
        arguments.card,
        job=_prepare_job(arguments),
        data=arguments.data,
        workers=arguments.threads,
    )


def _prepare_job(arguments) -> list[str]:
    """The arguments by which ``permafrost prepare`` is told its job."""
    if arguments.prepare_job is not None:
        return ["--job", arguments.prepare_job, "--plan", str(arguments.plan)]
    if arguments.prepare_spec is not None:
        return ["--spec", arguments.prepare_spec, "--code", str(arguments.prepare_code)]
    return []


def located_job(arguments) -> tuple[dict, str]:
    """The spec, the paths of its entry where the data lie, and the fingerprint of the job."""
    from permafrost.core.specification import merged, substitute

    job = planned_job(arguments)
    entry = merged(job.spec["entry"], job.places.get("entry", {}))
    paths = job.places.get("files", {})
    files = {
        substitute(paths.get(role, role), arguments.data): digest
        for role, digest in (job.spec.get("files") or {}).items()
    }
    spec = {**job.spec, "entry": substitute(entry, arguments.data), "files": files}
    return spec, job.fingerprint


def run(arguments, extract, kind: type, **outputs) -> None:
    """Run `extract`(spec of type `kind`, images=, card=, fingerprint=, …, **outputs) on images that surely exist."""
    from permafrost.core.memory import keep_freed_memory
    from permafrost.features.specification import Running

    images = images_of(arguments)
    keep_freed_memory()
    spec, fingerprint = located_job(arguments)
    extract(
        from_json(kind, spec, where=f"spec of the {spec['stage']} job"),
        images=images,
        card=arguments.card,
        fingerprint=fingerprint,
        running=Running(
            device=arguments.device,
            batch_size=arguments.batch_size,
            threads=arguments.threads,
        ),
        **outputs,
    )
