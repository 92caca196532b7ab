"""How many objects the image stores of a dataset hold, and how large they are."""

from __future__ import annotations

import math

import numpy as np

from permafrost.core.stores import Store
from permafrost.data.objects import objects_of
from permafrost.report.figures.object_sizes import Objects
from permafrost.report.material.dataset import Material


def read_truth(material: Material) -> dict[str, Objects]:
    """Split -> its objects, without crowds, for the splits whose image store is at hand.

    An object that several windows show is counted once.
    """
    found = {}
    for split in material.card.splits:
        path = material.stores.get(split)
        if path is not None and path.exists():
            found[split] = _of_store(Store(path, expect=material.expected(path), split=split))
    return found


def _of_store(store: Store) -> Objects:
    table = store.samples(columns=["image_id", "objects"])
    images: dict[str, dict[int, float]] = {}
    for image, objects in zip(
        table["image_id"].to_pylist(), objects_of(table["objects"]), strict=True
    ):
        own = images.setdefault(image, {})
        regular = objects.take(~objects.crowd)
        # points have no area, and all of their sizes are 0
        sides = regular.boxes[:, 2:] - regular.boxes[:, :2]
        own.update(zip(regular.numbers.tolist(), sides.prod(axis=1).tolist(), strict=True))
    return Objects(
        np.array([len(own) for own in images.values()], np.int64),
        np.array([math.sqrt(area) for own in images.values() for area in own.values()]),
    )
