"""``permafrost views``: features of augmented views of some images."""

from __future__ import annotations

from pathlib import Path

from permafrost.features.specification import ViewsSpec
from permafrost.stages import image_jobs


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    image_jobs.add_batch_size(parser)
    parser.add_argument("--output", type=Path, required=True, help="store of views to write")


def run(arguments) -> None:
    from permafrost.features.views import extract_views

    image_jobs.run(arguments, extract_views, ViewsSpec, output=arguments.output)
