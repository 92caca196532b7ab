"""Objects of samples in tortilla files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.tortilla import Item
from permafrost.data.files.tortilla_parts import annotations_of, read_sensor
from permafrost.data.sources.annotated import Found
from permafrost.data.sources.corners import masked, outline_of

if TYPE_CHECKING:
    from permafrost.data.sources.tortilla import TortillaOptions


def objects_of(
    parts: dict[str, list[Item]], options: TortillaOptions, classes: Sequence[str], sample: str
) -> list[Found]:
    """The objects of a sample.

    They come from a table or JSON of boxes. If the entry also names a mask, they come from a raster
    of object numbers (0 is none), and the class of each is the most frequent one of its pixels in
    the mask.

    Parameters
    ----------
    parts : of the sample, by sensor.
    sample : its name, for messages.

    Raises
    ------
    UnreadableImage : a part is missing or damaged, or a label is not a class.
    """
    for name in (options.boxes, options.mask):
        if name is not None and name not in parts:
            raise UnreadableImage(
                f"has no part {name!r}, only {', '.join(parts)}",
                remedy="name one of its parts with boxes and mask in source",
            )
    if options.mask is not None:
        numbers = read_sensor(parts[options.boxes]).values[0, 0]
        labels = read_sensor(parts[cast("str", options.mask)]).values[0, options.label_channel or 0]
        listed = _numbered(numbers, labels)
    else:
        listed = annotations_of(parts[options.boxes][0])
    found = []
    for number, one in enumerate(listed, start=1):
        label = _class(one["label"], options, classes)
        if label is not None:
            where = f"{sample}: object {number}"
            rings = [ring for ring in one["polygon"] or [] if len(ring) >= 6]
            shape = {"box": one["box"], "area": one.get("area"), "polygon": rings or None}
            if one.get("oriented"):
                shape = outline_of(np.reshape(np.array(rings[0], np.float64), (4, 2)))
            found.append(Found(label=label, where=where, mask=one.get("mask"), **shape))
    return found


def _numbered(numbers: np.ndarray, labels: np.ndarray) -> list[dict]:
    """The objects in a raster (H, W) of object numbers; 0 is none."""
    if numbers.shape != labels.shape:
        raise UnreadableImage(f"has objects of {numbers.shape} pixels and a mask of {labels.shape}")
    objects = []
    for number in np.unique(numbers[numbers != 0]):
        rows, columns = np.nonzero(numbers == number)
        names, counts = np.unique(labels[rows, columns], return_counts=True)
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        objects.append(
            {
                "label": int(names[np.argmax(counts)]),
                "box": [float(edge) for edge in box],
                "polygon": None,
                **masked(numbers == number),
            }
        )
    return objects


def _class(label, options: TortillaOptions, classes: Sequence[str]) -> str | None:
    """The class of a stored label; None if the entry omits it (null).

    Without `label_values`, a label is the name of a class or its number from 0.
    """
    if label is None and options.empty_label is not None:
        return options.empty_label
    # YAML keys may be numbers where JSON has text
    values = {str(key): name for key, name in (options.label_values or {}).items()}
    if str(label) in values:
        return values[str(label)]
    if not values and label in classes:
        return label
    if not values and isinstance(label, int) and 0 <= label < len(classes):
        return classes[label]
    raise UnreadableImage(
        f"has an object with the label {label!r}, which no class has",
        remedy="say with label_values which label means which class",
    )
