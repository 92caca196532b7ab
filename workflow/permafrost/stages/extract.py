"""``permafrost extract``: feature stores of one backbone from image stores, whole or in parts."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.shared_cache import taken_or_made
from permafrost.features.kept_layers import KeptLayers
from permafrost.features.specification import ExtractSpec
from permafrost.plan.digests import DIGESTS, DigestCache
from permafrost.stages import image_jobs
from permafrost.stages.arguments import add_splits, by_split, kept_reading, planned_job


def add_arguments(parser) -> None:
    image_jobs.add_arguments(parser)
    image_jobs.add_batch_size(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    add_splits(what, "--output", "feature stores to write", required=False)
    what.add_argument(
        "--part",
        type=Path,
        metavar="FOLDER",
        help="write one shard to this folder, named by shard: 0-of-8 to 7-of-8",
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        type=Path,
        metavar="FOLDER",
        default=[],
        help="with --output: only join the shards in these folders",
    )
    parser.add_argument(
        "--layers",
        nargs="+",
        default=[],
        metavar="LAYER",
        help="store maps of these layers only (default: of all)",
    )
    parser.add_argument(
        "--strides",
        nargs="+",
        type=float,
        default=[],
        metavar="PIXELS",
        help="as --layers, of the layers with patches closest to so many pixels",
    )


def run(arguments) -> None:
    from permafrost.core.stores import Store

    if arguments.part is not None:
        _extract_part(arguments)
        return
    expect = planned_job(arguments).fingerprint
    make = _join if arguments.parts else _extract
    taken_or_made(
        arguments.output,
        expect,
        lambda path: Store(path, expect=expect),
        lambda: make(arguments),
        kept_reading(),
        shared=_kept(arguments) is None,
    )


def _extract(arguments) -> None:
    from permafrost.features.extract import extract

    # files of embeddings may be large; they are not read again if unchanged since planning
    known = DigestCache(Path(DIGESTS))
    outputs = by_split(arguments.output)
    about = {"outputs": outputs, "digest_of": known.content}
    image_jobs.run(arguments, extract, ExtractSpec, kept=_kept(arguments), **about)


def _extract_part(arguments) -> None:
    from permafrost.features.parts import Part, extract_part

    part = Part.of(arguments.part.name)
    about = {"part": part, "output": arguments.part}
    image_jobs.run(arguments, extract_part, ExtractSpec, kept=_kept(arguments), **about)


def _kept(arguments) -> KeptLayers | None:
    if not (arguments.layers or arguments.strides):
        return None
    return KeptLayers(tuple(arguments.layers), tuple(arguments.strides))


def _join(arguments) -> None:
    from permafrost.features.parts import join_parts

    images = image_jobs.images_of(arguments)
    job = planned_job(arguments)
    join_parts(
        arguments.parts,
        images=images,
        expect_images=job.spec["inputs"]["images"],
        outputs=by_split(arguments.output),
        fingerprint=job.fingerprint,
    )
