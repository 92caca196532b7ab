"""``permafrost prepare``: a dataset's files in, three image stores and a card out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.stages.arguments import add_job, add_splits, by_split, planned_job, specified

if TYPE_CHECKING:
    from permafrost.core.promised import Promised
    from permafrost.data.prepare import PrepareSpec
    from permafrost.plan.digests import DigestCache


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    add_splits(parser, "--output", "image stores to write")
    parser.add_argument("--card", type=Path, required=True, help="card to write")
    parser.add_argument("--workers", type=int, default=2, help="threads that decode images")


def run(arguments) -> None:
    from permafrost.core.specification import merged, substitute
    from permafrost.data.prepare import PrepareSpec, prepare
    from permafrost.plan.digests import DIGESTS, DigestCache

    job = planned_job(arguments)
    spec = specified(job, PrepareSpec)
    entry = merged(spec.entry, job.places.get("entry", {}))
    matched = merged(spec.matched, job.places.get("matched", {}))
    spec = replace(
        spec,
        entry=substitute(entry, arguments.data),
        matched=substitute(matched, arguments.data),
    )
    # data in the state that the plan saw are not read once more
    known = DigestCache(Path(DIGESTS))
    prepare(
        spec,
        outputs=by_split(arguments.output),
        card_path=arguments.card,
        fingerprint=job.fingerprint,
        workers=arguments.workers,
        digest_of=known.content,
        **({"check": _promised_data(spec, known).check} if spec.source is not None else {}),
    )


def _promised_data(spec: PrepareSpec, known: DigestCache) -> Promised:
    """The data of the dataset, with the digest that the plan was made from."""
    from permafrost.core.promised import Promised
    from permafrost.data.digest import source_digest, source_state
    from permafrost.data.folders import content_state

    entry = spec.entry
    return Promised(
        "the source's data",
        spec.source,
        lambda: source_digest(entry, known.content),
        lambda: source_state(entry, content_state),
        where=f"dataset {spec.dataset}",
    )
