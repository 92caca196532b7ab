"""``permafrost check``: run one batch of a dataset through a backbone, before a long run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import fingerprint
from permafrost.core.memory import keep_freed_memory
from permafrost.core.specification import SPLITS, substitute
from permafrost.core.tasks import targets_of
from permafrost.core.text import printable
from permafrost.core.working import working
from permafrost.data.sources import read_entry
from permafrost.features.specification import BackboneSpec
from permafrost.plan.options import extraction_of
from permafrost.report.explanations.gates import leakage_flags
from permafrost.stages.arguments import add_compute
from permafrost.stages.list import add_json, add_places, offers_of, print_json

if TYPE_CHECKING:
    from permafrost.data.store.card import Card
    from permafrost.features.trial import Trial
    from permafrost.operate.offers import Offers


#: columns of the printed table of channels
CHANNEL = ("channel", "mean", "deviation", "least", "greatest")


def add_arguments(parser) -> None:
    parser.add_argument("name", help="name of a backbone (see permafrost list)")
    parser.add_argument("--dataset", required=True, help="dataset of the input images")
    parser.add_argument(
        "--images", type=int, default=8, metavar="N", help="batch size (default: 8)"
    )
    add_json(parser)
    add_places(parser)
    add_compute(parser)


def run(arguments) -> int:
    from permafrost.data.store.card import read_card
    from permafrost.operate.as_fed import prepared
    from permafrost.operate.offers import planned_input

    if arguments.images < 1:
        raise PermafrostError(
            f"--images {arguments.images} must be at least 1", remedy="give 1 or more"
        )
    offers = offers_of(arguments)
    # raises the errors of a plan before any image is read
    with working(f"reading the entries of {arguments.name} and {arguments.dataset}"):
        planned_input(offers, arguments.dataset, arguments.name)
        card_path = prepared(offers, arguments.dataset)
    with tempfile.TemporaryDirectory(prefix="permafrost-check-") as folder:
        found = "the image store of the last run"
        if card_path is None:
            with working(f"preparing {arguments.images} images of each split"):
                card_path = prepare_few(offers, arguments.dataset, arguments.images, Path(folder))
            found = f"{arguments.images} images of each split, prepared for this check"
        card = read_card(card_path)
        with working(f"running {arguments.name} on {arguments.images} images"):
            trial = tried(offers, arguments, card, card_path)
    doubts = [*trial.doubts, *(flag["long"] for flag in leakage_flags(card))]
    doubts += [doubt["found"] for doubt in card.audit.get("bands", ())]
    if arguments.json:
        print_json(
            {
                "backbone": arguments.name,
                "dataset": arguments.dataset,
                "images": found,
                "facts": dict(trial.facts),
                "channels": [dict(zip(CHANNEL, one, strict=True)) for one in trial.channels],
                "doubts": doubts,
            }
        )
        return 0
    print(printable("\n".join(lines_of(arguments, found, card, trial, doubts))))
    return 0


def prepare_few(offers: Offers, dataset: str, count: int, folder: Path) -> Path:
    """Write image stores of `count` images of each split to `folder`; returns the card's path."""
    from permafrost.data.class_files import check_files
    from permafrost.data.store.prepare import PrepareSpec, prepare
    from permafrost.plan.catalogue import result_fields

    entry = result_fields(offers.dataset(dataset))
    where = offers.datasets.where(dataset)
    check_files(read_entry(entry, where=where), where=where)
    if not targets_of(entry["task"]).numbers:
        # a few images may not contain all classes
        entry["allow_missing_classes"] = True
    prepare(
        PrepareSpec(dataset=dataset, entry=entry),
        outputs={split: folder / f"{split}.zarr" for split in SPLITS},
        card_path=folder / "card.json",
        fingerprint=fingerprint("check", entry, count),
        most=count,
    )
    return folder / "card.json"


def tried(offers: Offers, arguments, card: Card, card_path: Path) -> Trial:
    """Run the backbone on one batch, with the model and input of extraction."""
    from permafrost.core.option_models import read
    from permafrost.features.trial import try_backbone
    from permafrost.plan.catalogue import result_fields

    keep_freed_memory()
    entry = substitute(offers.backbones.entry(arguments.name), str(offers.data))
    entry, extraction = extraction_of(card.task, result_fields(entry), offers.extraction())
    spec = {
        "stage": "extract",
        "dataset": arguments.dataset,
        "backbone": arguments.name,
        "entry": entry,
        "extraction": extraction,
        "inputs": {"images": card.fingerprint},
    }
    return try_backbone(
        read(BackboneSpec, spec, where="check"),
        images={split: card_path.with_name(f"{split}.zarr") for split in SPLITS},
        card=card_path,
        device=arguments.device,
        batch_size=arguments.images,
        threads=arguments.threads,
    )


def lines_of(arguments, found: str, card: Card, trial: Trial, strange: list[str]) -> list[str]:
    """The printed lines: facts, a table of channels, and warnings."""
    facts = [
        ("backbone", arguments.name),
        ("dataset", f"{arguments.dataset}, {card.task}; {found}"),
    ]
    width = max(len(what) for what, _ in [*facts, *trial.facts])
    lines = [f"  {what:<{width}}  {value}" for what, value in [*facts, *trial.facts]]
    name = max([7, *(len(channel[0]) for channel in trial.channels)])
    heading = "".join(f"{word:>12}" for word in CHANNEL[1:])
    lines += ["", f"  {'channel':<{name}}{heading}"]
    for channel, *numbers in trial.channels:
        lines.append(f"  {channel:<{name}}" + "".join(f"{number:>12.4g}" for number in numbers))
    doubts = [f"  look at: {doubt}" for doubt in strange]
    return [*lines, "", *(doubts or ["  nothing strange was found"])]
