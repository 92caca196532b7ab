"""What every feature store records of the dataset and of the job."""

from __future__ import annotations

from permafrost.data.card import Card
from permafrost.features.specification import BackboneSpec


def of_dataset(spec: BackboneSpec, card: Card) -> dict:
    """Names, labels and splits; the first of a store's attributes."""
    return {
        "dataset": spec.dataset,
        "backbone": spec.backbone,
        "task": card.task,
        "classes": card.classes,
        **({"target": card.target["name"]} if card.target is not None else {}),
        "split_method": card.split_method,
        "spatially_random": card.spatially_random,
    }
