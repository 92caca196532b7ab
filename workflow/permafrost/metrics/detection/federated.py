"""LVIS: every image is annotated for some categories only."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.tables import Detections, Truths, rows_of
from permafrost.metrics.detection.ragged import by_descending


def trim(detections: Detections, cap: int) -> Detections:
    """The `cap` best detections of every image over all categories; all for a negative cap.

    Ties go to the detection that is first in the file.
    """
    if cap < 0:
        return detections
    order = by_descending(detections.image, detections.scores)
    image = detections.image[order]
    place = np.arange(len(order)) - np.searchsorted(image, image)
    return rows_of(detections, np.sort(order[place < cap]))


def without_area(table, strict: bool):
    """Drop rows of area 0 if `strict`, as lvis does."""
    empty = table.areas <= 0
    if not strict or not empty.any():
        return table
    kind = "annotations" if isinstance(table, Truths) else "detections"
    table.notes.dropped[f"{kind}: the area is 0 (lvis passes over them)"] = int(empty.sum())
    return rows_of(table, ~empty)


def in_annotated_cells(truths: Truths, detections: Detections) -> Detections:
    """Detections of categories that are verified as present or absent in their image."""
    count = len(truths.categories)
    known = [truths.image * count + truths.category]
    known += [image * count + categories for image, categories in enumerate(truths.images.negative)]
    cell = detections.image * count + detections.category
    return rows_of(detections, np.isin(cell, np.concatenate(known)))


def not_exhaustive(truths: Truths, detections: Detections) -> np.ndarray:
    """(D,) bool: detections whose category is not fully annotated in their image."""
    count = len(truths.categories)
    listed = [
        image * count + categories for image, categories in enumerate(truths.images.not_exhaustive)
    ]
    cells = np.concatenate([np.empty(0, np.int64), *listed])
    return np.isin(detections.image * count + detections.category, cells)


def check_lists(truths: Truths) -> None:
    """Refuse a category that is both absent and not fully annotated in one image."""
    images = truths.images
    for image, (absent, partial) in enumerate(
        zip(images.negative, images.not_exhaustive, strict=True)
    ):
        both = np.intersect1d(absent, partial)
        if both.size:
            raise PermafrostError(
                f"category {truths.categories.ids[both[0]]} is in neg_category_ids and in"
                " not_exhaustive_category_ids",
                where=f"{truths.source}: image {images.ids[image]}",
                remedy="remove it from one of the two lists",
            )
