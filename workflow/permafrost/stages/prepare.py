"""``permafrost prepare``: image stores and a card from a dataset's files, whole or in parts."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.opened import declare
from permafrost.core.promised import Promised
from permafrost.core.shared_cache import taken_or_made
from permafrost.core.specification import merged, substitute
from permafrost.data.digest import (
    downloaded,
    folder_content,
    read_of,
    source_digest,
    source_paths,
    source_state,
)
from permafrost.data.files.folders import content_state
from permafrost.plan.digests import DIGESTS, DigestCache
from permafrost.stages.arguments import (
    add_job,
    add_splits,
    by_split,
    kept_reading,
    planned_job,
    specified,
)

if TYPE_CHECKING:
    from permafrost.core.promised import Promised
    from permafrost.data.store.prepare import PrepareSpec
    from permafrost.plan.digests import DigestCache


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    what = parser.add_mutually_exclusive_group(required=True)
    add_splits(what, "--output", "image stores to write", required=False)
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
    parser.add_argument("--card", type=Path, help="card to write, with --output")
    parser.add_argument("--workers", type=int, default=2, help="threads that decode images")


def run(arguments) -> None:
    from permafrost.data.store.prepare import PrepareSpec

    if arguments.output is not None and arguments.card is None:
        raise PermafrostError("--output needs --card", remedy="give the file of the card")
    job = planned_job(arguments)
    spec = specified(job, PrepareSpec)
    entry = merged(spec.entry, job.places.get("entry", {}))
    matched = merged(spec.matched, job.places.get("matched", {}))
    spec = replace(
        spec,
        entry=substitute(entry, arguments.data),
        matched=substitute(matched, arguments.data),
    )
    # data that are unchanged since planning are not read again
    known = DigestCache(Path(DIGESTS))
    told = {"fingerprint": job.fingerprint, "workers": arguments.workers}
    if spec.source is not None:
        told["check"] = _promised_data(spec, known).check
    _declare(spec.entry, known)
    if arguments.part is not None:
        _prepare_part(spec, arguments, told)
        return
    if arguments.parts:
        make = functools.partial(_join, spec, arguments, told)
    else:
        make = functools.partial(_prepare, spec, arguments, {**told, "digest_of": known.content})
    check = functools.partial(_check, expect=job.fingerprint)
    outputs = [*arguments.output, arguments.card]
    taken_or_made(outputs, job.fingerprint, check, make, kept_reading())


def _declare(entry: dict, known: DigestCache) -> None:
    """Say which files the entry's identity covers, and which folder counts although it does not."""
    for path in source_paths(entry):
        declare(path, read_of(entry))
    kept, folder = kept_reading(), downloaded(entry)
    if kept is not None and folder is not None:
        declare(folder[0])
        kept.data = functools.partial(folder_content, folder, known.content)


def _check(path: Path, *, expect: str) -> None:
    """Refuse an image store or a card that is damaged or belongs to another job."""
    from permafrost.core.stores import Store
    from permafrost.data.store.card import read_card

    if path.is_dir():
        Store(path, expect=expect)
    else:
        read_card(path, expect=expect)


def _prepare(spec: PrepareSpec, arguments, told: dict) -> None:
    from permafrost.data.store.prepare import prepare

    prepare(spec, outputs=by_split(arguments.output), card_path=arguments.card, **told)


def _prepare_part(spec: PrepareSpec, arguments, told: dict) -> None:
    from permafrost.core.store_parts import Part
    from permafrost.data.store.parts import prepare_part

    prepare_part(spec, output=arguments.part, part=Part.of(arguments.part.name), **told)


def _join(spec: PrepareSpec, arguments, told: dict) -> None:
    from permafrost.data.store.joining import join_parts

    outputs = by_split(arguments.output)
    join_parts(spec, parts=arguments.parts, outputs=outputs, card_path=arguments.card, **told)


def _promised_data(spec: PrepareSpec, known: DigestCache) -> Promised:
    """The dataset's files, with the digest that the plan expects."""
    entry = spec.entry
    return Promised(
        "the source's data",
        spec.source,
        lambda: source_digest(entry, known.content),
        lambda: source_state(entry, content_state),
        where=f"dataset {spec.dataset}",
    )
