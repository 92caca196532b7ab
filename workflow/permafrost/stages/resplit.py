"""``permafrost resplit``: a derived dataset, which divides the images of others anew."""

from __future__ import annotations

from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.specification import merged, substitute
from permafrost.stages.arguments import add_job, add_splits, by_split, planned_job, specified
from permafrost.stages.image_jobs import ensure_images


def add_arguments(parser) -> None:
    add_job(parser)
    parser.add_argument("--data", default="data", help="replaces {data} in the entry's paths")
    parser.add_argument(
        "--cards",
        type=Path,
        nargs="+",
        required=True,
        help="cards of the datasets whose images these are, next to their image stores",
    )
    parser.add_argument(
        "--prepare-jobs",
        nargs="+",
        default=[],
        help="fingerprints of the jobs that recompute image stores, one per card",
    )
    add_splits(parser, "--output", "image stores to write")
    parser.add_argument("--card", type=Path, required=True, help="card to write")
    parser.add_argument("--threads", type=int, default=1)


def run(arguments) -> None:
    from permafrost.data.resplit.job import ResplitSpec, resplit

    job = planned_job(arguments)
    spec = specified(job, ResplitSpec)
    cards = {path.parent.name: path for path in arguments.cards}
    if sorted(cards) != sorted(spec.inputs.images):
        raise PermafrostError(
            f"--cards are those of {', '.join(sorted(cards))}, where those of"
            f" {', '.join(sorted(spec.inputs.images))} are expected",
            remedy="give the cards of the datasets that it is derived from",
        )
    jobs = arguments.prepare_jobs or [None] * len(cards)
    for card, other in zip(arguments.cards, jobs, strict=True):
        again = [] if other is None else ["--job", other, "--plan", str(arguments.plan)]
        ensure_images(card, job=again, data=arguments.data, workers=2)
    table = merged(spec.derived, job.places.get("derived", {})).get("folds", {}).get("table")
    resplit(
        spec,
        cards=cards,
        outputs=by_split(arguments.output),
        card_path=arguments.card,
        fingerprint=job.fingerprint,
        table=None if table is None else Path(substitute(table, arguments.data)),
    )
