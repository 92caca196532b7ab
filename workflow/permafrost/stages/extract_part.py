"""``permafrost extract-part``: image stores in, one part of the feature stores of a backbone out."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import image_jobs


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    image_jobs.add_batch_size(parser)
    parser.add_argument("--part", required=True, help="which: 0-of-8 to 7-of-8 for eight parts")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")


def run(arguments) -> None:
    from permafrost.features.parts import Part, extract_part
    from permafrost.features.specification import ExtractSpec

    part = Part.of(arguments.part)
    image_jobs.run(arguments, extract_part, ExtractSpec, part=part, output=arguments.output)
