"""``permafrost extract``: image stores in, feature stores of one backbone out."""

from __future__ import annotations

from pathlib import Path

from permafrost.stages import image_jobs
from permafrost.stages.arguments import add_splits, by_split, planned_job


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    image_jobs.add_batch_size(parser)
    add_splits(parser, "--output", "feature stores to write")
    parser.add_argument(
        "--parts",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        help="join what `permafrost extract-part` wrote there; nothing is run",
    )


def run(arguments) -> None:
    if arguments.parts:
        _join(arguments)
        return
    from permafrost.features.extract import extract
    from permafrost.features.specification import ExtractSpec
    from permafrost.plan.digests import DIGESTS, DigestCache

    # files of embeddings may be large; in the state that the plan saw they are not read once more
    known = DigestCache(Path(DIGESTS))
    outputs = by_split(arguments.output)
    image_jobs.run(arguments, extract, ExtractSpec, outputs=outputs, digest_of=known.content)


def _join(arguments) -> None:
    from permafrost.features.joining import join_parts

    images = image_jobs.images_of(arguments)
    job = planned_job(arguments)
    join_parts(
        arguments.parts,
        images=images,
        expect_images=job.spec["inputs"]["images"],
        outputs=by_split(arguments.output),
        fingerprint=job.fingerprint,
    )
