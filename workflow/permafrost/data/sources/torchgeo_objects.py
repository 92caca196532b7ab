"""Objects in samples of torchgeo's detection datasets."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.sources.annotated import Found
from permafrost.data.sources.corners import EDGES, box_edges, masked, outline_of

if TYPE_CHECKING:
    from permafrost.data.sources.torchgeo import TorchgeoOptions

#: classes whose boxes do not depend on pixels, so their images need not be read to list the boxes
WITHOUT_PIXELS = frozenset({"DIOR", "DOTA", "FAIR1M", "ForestDamage", "ReforesTree", "SODAA"})


class SampleObjects:
    """Reads the objects of a sample as the entry declares them."""

    def __init__(
        self, options: TorchgeoOptions, classes: Sequence[str], *, masks: bool, where: object
    ) -> None:
        self._classes = classes
        self._boxes = options.boxes_key
        self._rotated = options.boxes == "corners"
        self._corners = options.corners
        self._masks = options.masks_key if masks and not self._rotated else None
        if self._rotated and self._corners != EDGES:
            raise PermafrostError(
                f"corners: {self._corners} is for upright boxes",
                where=where,
                remedy="remove corners, or set boxes: upright",
            )
        self._label = options.label_key or "label"
        # without labels, all objects have the only class
        required = options.label_key is not None or len(classes) > 1
        self._needed_labels = [self._label] if required else []
        self._names = _label_names(options.label_values, classes, where)

    def __call__(self, sample: dict, name: str) -> list[Found]:
        """The objects of a sample; raises `UnreadableImage` for invalid ones.

        Parameters
        ----------
        name : of the sample, for messages.
        """
        needed = [self._boxes, *([self._masks] if self._masks else []), *self._needed_labels]
        absent = [key for key in needed if key not in sample]
        if absent:
            raise UnreadableImage(f"has no {absent[0]!r}, only {', '.join(sample)}")
        boxes = np.asarray(sample[self._boxes], np.float64)
        count = len(boxes) if boxes.size else 0
        labels = self._class_names(sample, count)
        shapes = self._outlined(self._shapes(boxes, count), sample)
        return [
            Found(label=label, where=f"{name}: object {number}", **shape)
            for number, (label, shape) in enumerate(zip(labels, shapes, strict=True), start=1)
        ]

    def _shapes(self, boxes: np.ndarray, count: int) -> list[dict]:
        if self._rotated:
            return [outline_of(outline) for outline in self._outlines(boxes, count)]
        if count and boxes.shape != (count, 4):
            raise UnreadableImage(
                f"its boxes have shape {boxes.shape}, not ({count}, 4); set boxes: corners for"
                " rotated boxes"
            )
        edges = box_edges(boxes.reshape(-1, 4), self._corners)
        return [{"box": box} for box in edges.tolist()]

    def _outlined(self, shapes: list[dict], sample: dict) -> list[dict]:
        """The shapes with the masks of the sample, if these are wanted."""
        if self._masks is None or not shapes:
            return shapes
        masks = np.asarray(sample[self._masks])
        if masks.ndim != 3 or len(masks) != len(shapes):
            raise UnreadableImage(
                f"its masks have shape {masks.shape}, not ({len(shapes)}, height, width)",
                remedy="name the key of one mask per object with masks_key in source",
            )
        return [{**one, **masked(mask != 0)} for one, mask in zip(shapes, masks, strict=True)]

    def _outlines(self, boxes: np.ndarray, count: int) -> list[np.ndarray]:
        """Corners (P, 2) of each object."""
        pairs = boxes.ndim == 3 and boxes.shape[2] == 2 and boxes.shape[1] > 2
        flat = boxes.ndim == 2 and boxes.shape[1] > 4 and boxes.shape[1] % 2 == 0
        if count and not pairs and not flat:
            raise UnreadableImage(
                f"its boxes have shape {boxes.shape}, not ({count}, corners, 2); set boxes: upright for"
                " boxes by two corners"
            )
        return list(boxes.reshape(count, -1, 2)) if count else []

    def _class_names(self, sample: dict, count: int) -> list[str]:
        if self._label not in sample:
            return [self._classes[0]] * count
        labels = np.asarray(sample[self._label]).ravel().tolist()
        if len(labels) != count:
            raise UnreadableImage(f"has {count} boxes and {len(labels)} labels")
        unknown = sorted(set(labels) - set(self._names))
        if unknown:
            raise UnreadableImage(
                f"its labels hold {', '.join(f'{label:g}' for label in unknown[:10])}, which no class"
                " has; say with label_values which number means which class"
            )
        return [self._names[label] for label in labels]


def _label_names(values: dict | None, classes: Sequence[str], where: object) -> dict[int, str]:
    """Stored number -> class."""
    if values is None:
        return dict(enumerate(classes))
    try:
        names = {int(number): name for number, name in values.items()}
    except ValueError as error:
        raise PermafrostError(
            f"label_values has a key that is not a whole number ({error})",
            where=where,
            remedy="name the numbers that the class returns",
        ) from error
    strange = sorted(set(names.values()) ^ set(classes))
    if strange:
        raise PermafrostError(
            f"label_values and classes do not name the same: {', '.join(strange[:20])}",
            where=where,
            remedy="give every class at least one number, and no other class",
        )
    return names


def without_pixels(part):
    """The same dataset with one-pixel images, if that does not change the boxes; else None."""
    if type(part).__name__ not in WITHOUT_PIXELS:
        return None
    import torch

    quick = copy.copy(part)
    quick._load_image = lambda *_, **__: torch.zeros(3, 1, 1)
    return quick


def check_pairing(part, where: object) -> None:
    """Raise `PermafrostError` if images and annotations are matched by order alone and their names differ."""
    files = getattr(part, "files", None)
    if hasattr(part, "source") and isinstance(getattr(part, "labels", None), list):
        images, annotations = part.source, part.labels
    elif isinstance(files, list) and files and isinstance(files[0], dict):
        images = [file.get("image") for file in files]
        annotations = [file.get("annotation") for file in files]
        if None in images or None in annotations:
            return
    else:
        return
    strangers = [
        f"{os.path.basename(image)} with {os.path.basename(other)}"
        for image, other in zip(images, annotations, strict=False)
        if Path(image).stem != Path(other).stem
    ]
    if strangers or len(images) != len(annotations):
        few = f", e.g. {'; '.join(strangers[:3])}" if strangers else ""
        raise PermafrostError(
            f"torchgeo's {type(part).__name__} matches {len(images)} images with"
            f" {len(annotations)} annotations by their order, and the names differ{few}",
            where=where,
            remedy="complete or remove the files that have no counterpart",
        )
