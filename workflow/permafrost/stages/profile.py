"""``permafrost profile``: a dataset's card and a backbone in, what the backbone costs on this machine out."""

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
        help="the dataset's card; its image stores lie beside it and are rarely needed",
    )
    parser.add_argument(
        "--prepare-spec", help="job that makes image stores that were deleted again"
    )
    parser.add_argument("--prepare-code", help="hash of the sources of that job")
    parser.add_argument("--output", type=Path, required=True, help="table of the profile to write")
    add_compute(parser)


def run(arguments) -> None:
    from permafrost.core.allocator import keep_freed_memory
    from permafrost.core.paths import substitute
    from permafrost.features.profiling.profile import profile_backbone
    from permafrost.statistics.profile_table import write_profile

    from .remake import ensure_images

    def images() -> dict[str, Path]:
        return ensure_images(
            arguments.card,
            spec=arguments.prepare_spec,
            code=arguments.prepare_code,
            data=arguments.data,
            workers=arguments.threads,
        )

    # as extraction runs
    keep_freed_memory()
    spec, fingerprint = read_job(arguments)
    entry = substitute(spec["entry"], arguments.data)
    profile = profile_backbone(
        {**spec, "entry": entry},
        card=arguments.card,
        images=images,
        device=arguments.device,
        threads=arguments.threads,
    )
    print(write_profile(profile, arguments.output, spec=spec, made=fingerprint))
