"""A sheet of thumbnails of a prepared dataset, to check images, labels and bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.store_readers import open_store
from permafrost.core.stores import Store
from permafrost.core.tasks import targets_of
from permafrost.data.labels.objects import objects_of
from permafrost.data.store.card import Card
from permafrost.metrics.objects.shapes import object_shape
from permafrost.report.figures.examples import ACROSS, draw_examples, draw_masked, draw_outlined
from permafrost.report.material.pictures import picture_bands, read_masks, read_pictures

# lines of a sheet, and images of a sheet with masks or objects
_LINES, _IMAGES = 24, 12


def draw_sheet(card: Card, store: Path, *, source: str):
    """A figure of images of a store with their labels.

    Parameters
    ----------
    store : path of the image store of a split.
    source : source of the dataset, for the title.
    """
    images, targets = open_store(store), targets_of(card.task)
    ids = images.samples(columns=["sample_id"])["sample_id"].to_pylist()
    names = [name.rpartition("/")[2] for name in ids]
    bands, shown = picture_bands(card)
    about = {"title": f"{card.dataset}: {source}", "note": f"Train images in {shown}"}

    def pictures(rows: list[int]) -> dict[int, np.ndarray]:
        return read_pictures(images, rows, bands)

    if targets.masks or targets.objects:
        rows = _spread(np.arange(len(names)), _IMAGES)
        read = pictures(rows)
        if targets.masks:
            masks = read_masks(images, rows)
            examples = [(names[row], read[row], masks[row]) for row in rows]
            return draw_masked(examples, card.classes, **about)
        shape = object_shape(card.task)
        objects = objects_of(images.samples(columns=["objects"])["objects"])
        sides = ["width", "height", "image_height", "image_width"]
        sizes = images.samples(columns=sides).to_pydict()
        outlined = [
            (
                names[row],
                read[row],
                (sizes["width"][row], sizes["height"][row]),
                shape.of_image(objects[row], (sizes[sides[2]][row], sizes[sides[3]][row])),
            )
            for row in rows
        ]
        return draw_outlined(outlined, shape.kind, **about)
    lines = _lines(card, images, len(names))
    read = pictures([row for _, rows in lines for row in rows])
    return draw_examples(
        [(heading, [(names[row], read[row]) for row in rows]) for heading, rows in lines], **about
    )


def _lines(card: Card, images: Store, count: int) -> list[tuple[str, list[int]]]:
    """Heading and images of each line: per class, or from the lowest to the highest number."""
    labels = images.read("labels") if "labels" in images else np.zeros(count)
    if not card.classes:
        order = np.argsort(labels, kind="stable")
        rows = _spread(order, 2 * ACROSS)
        words = "from the lowest to the highest number" if "labels" in images else "images"
        return [(words if first == 0 else "", rows[first : first + ACROSS])
                for first in range(0, len(rows), ACROSS)]  # fmt: skip
    lines = []
    for number, name in enumerate(card.classes[:_LINES]):
        own = np.flatnonzero(labels == number if labels.ndim == 1 else labels[:, number] > 0)
        lines.append((f"{name} ({len(own)} here)", _spread(own, ACROSS)))
    return lines


def _spread(rows: np.ndarray, most: int) -> list[int]:
    """At most `most` of the rows, evenly spaced."""
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(int)]
    return rows.tolist()
