"""``permafrost profile``: the cost of a backbone on this machine, for a dataset's images."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from permafrost.core.memory import keep_freed_memory
from permafrost.core.option_models import read
from permafrost.features.specification import ProfileSpec
from permafrost.stages import image_jobs
from permafrost.stages.arguments import read_specification


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of the profile to write")


def run(arguments) -> None:
    from permafrost.features.profiling.profile import profile_backbone
    from permafrost.statistics.scores.profile_table import write_profile

    # as in extraction
    keep_freed_memory()
    spec, fingerprint = read_specification(arguments, ProfileSpec)
    located, _ = image_jobs.located_job(arguments)
    profile = profile_backbone(
        read(ProfileSpec, located, where="spec of the profile job"),
        card=arguments.card,
        # a function, because few backbones need images
        images=partial(image_jobs.images_of, arguments),
        device=arguments.device,
        threads=arguments.threads,
    )
    # the spec without paths, which do not affect the profile
    print(write_profile(profile, arguments.output, spec=spec, made=fingerprint))
