"""Attributes of every feature store that describe the dataset and the input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from permafrost.backbones.input.contract import InputPlan
from permafrost.backbones.input.fed import channels_as_fed, listed, unusual_channels
from permafrost.data.store.card import Card
from permafrost.features.specification import BackboneSpec

if TYPE_CHECKING:
    from permafrost.features.select import SelectSpec


def of_dataset(spec: BackboneSpec | SelectSpec, card: Card) -> dict:
    """Attributes for names, classes and splits."""
    return {
        "dataset": spec.dataset,
        "backbone": spec.backbone,
        "task": card.task,
        "classes": card.classes,
        **({"target": card.target["name"]} if card.target is not None else {}),
        "split_method": card.split_method,
        "spatially_random": card.spatially_random,
    }


def as_fed(card: Card, plan: InputPlan) -> dict[str, list[float]]:
    """Mean and standard deviation of each input channel on the train split.

    Computed from the card's band statistics by the normalization of `plan`.
    """
    _, means, stds = zip(*channels_as_fed(plan, card.bands), strict=True)
    return {"mean": list(means), "std": list(stds)}


def input_gates(card: Card, plan: InputPlan, kind: str) -> list[str]:
    """Warnings (gates) about the input of a backbone of this kind; stored with those of its features."""
    fed = {channel.name for channel in plan.channels if channel.index is not None}
    unusual = unusual_channels(plan, kind, card.bands, channels_as_fed(plan, card.bands))
    return [
        *(
            f"sentinel2_offset:{doubt['offset']}"
            for doubt in (card.audit or {}).get("bands", ())
            if "offset" in doubt and fed & set(doubt["bands"])
        ),
        *([f"unusual_input:{listed(unusual)}"] if unusual else []),
    ]
