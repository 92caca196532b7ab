"""Input of backbones from prepared datasets: mean and standard deviation of every channel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.input.fed import FedChannel, channels_as_fed, unusual_channels
from permafrost.backbones.kinds import kind_of
from permafrost.core.errors import PermafrostError
from permafrost.core.specification import SPLITS
from permafrost.data.store.card import Card, read_card
from permafrost.operate.offers import Offers, planned_input
from permafrost.plan.catalogue import result_fields
from permafrost.plan.recorded import current_plan, read_plan

# with more pairs, only those with unusual input are listed
_MANY = 20


def prepared(offers: Offers, dataset: str) -> Path | None:
    """The path of the dataset's card, if the last run prepared the same entry; else None."""
    results = offers.root / offers.config.get("results", "results")
    card = results / "images" / dataset / "card.json"
    try:
        recorded = read_plan(current_plan(results))["datasets"].get(dataset)
    except (PermafrostError, OSError):
        return None
    same = recorded is not None and result_fields(recorded) == result_fields(
        offers.datasets.entry(dataset)
    )
    stores = [card, *(card.with_name(f"{split}.zarr") for split in SPLITS)]
    return card if same and all(one.exists() for one in stores) else None


def known_card(offers: Offers, dataset: str) -> Card | None:
    """The dataset's card, if the last run prepared the same entry and it can be read; else None."""
    path = prepared(offers, dataset)
    try:
        return None if path is None else read_card(path)
    except PermafrostError:
        return None


def fed_of(
    offers: Offers, card: Card, backbone: str
) -> tuple[InputPlan, list[FedChannel], list[FedChannel]]:
    """The input of a backbone from a card's dataset: plan, all channels, and the unusual ones.

    Raises
    ------
    PermafrostError : the dataset does not fit the backbone.
    """
    plan = planned_input(offers, card.dataset, backbone, card)
    fed = channels_as_fed(plan, card.bands)
    kind = offers.backbones.entry(backbone)["kind"]
    return plan, fed, unusual_channels(plan, kind, card.bands, fed)


def known_pairs(
    offers: Offers, pairs: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], tuple[list[FedChannel], list[FedChannel]]]:
    """(dataset, backbone) -> all channels and the unusual ones, for pairs with prepared images."""
    cards: dict[str, Card | None] = {}
    found = {}
    for dataset, backbone in pairs:
        if not kind_of(offers.backbones.entry(backbone)).pixels:
            continue
        if dataset not in cards:
            cards[dataset] = known_card(offers, dataset)
        card = cards[dataset]
        # pairs that do not fit are refused by their job
        with contextlib.suppress(PermafrostError):
            if card is not None:
                found[dataset, backbone] = fed_of(offers, card, backbone)[1:]
    return found


def fed_lines(found: Mapping[tuple[str, str], tuple[list[FedChannel], list[FedChannel]]]):
    """Lines for a terminal: mean and standard deviation of every channel, one line per pair.

    With many pairs, only the unusual ones are listed.
    """
    shown = {pair: one for pair, one in found.items() if one[1] or len(found) <= _MANY}
    if not found:
        return
    yield ""
    yield "Fed:       mean ± deviation of each channel over train, of images that are prepared"
    for (dataset, backbone), (fed, unusual) in shown.items():
        doubt = "unusual input: " if unusual else ""
        yield f"  {backbone} on {dataset}: {doubt}{', '.join(map(str, fed))}"
    if rest := len(found) - len(shown):
        yield f"  and {rest} pairs without anything unusual; `permafrost info BACKBONE --dataset DATASET` shows one"


def fed_json(
    found: Mapping[tuple[str, str], tuple[list[FedChannel], list[FedChannel]]],
) -> list[dict]:
    """Like `fed_lines`, as JSON, for all pairs."""
    return [
        {
            "dataset": dataset,
            "backbone": backbone,
            "channels": [one._asdict() for one in fed],
            "unusual": [one.name for one in unusual],
        }
        for (dataset, backbone), (fed, unusual) in found.items()
    ]
