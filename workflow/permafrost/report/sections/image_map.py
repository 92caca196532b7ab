"""The map of a dataset's test images: values for `template/image_map.js`, and one file with all small pictures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from permafrost.core.tasks import targets_of
from permafrost.report.figures.class_colours import class_colours, shared_colours
from permafrost.report.material.dataset import Material, slug
from permafrost.report.material.hardest import error_of
from permafrost.report.material.image_map import (
    SIDE,
    ImageMap,
    Mapped,
    read_image_map,
    small_pictures,
)
from permafrost.report.sections.explorer import embedded

_STEPS = 65_535
_QUALITY = 70  # of the JPEG


def image_map_section(
    material: Material, features: Mapping[str, Path], folder: Path
) -> dict | None:
    """Template values, None without planned features; the small pictures are written into `folder`.

    Parameters
    ----------
    features : backbone -> feature store of test, which may have been deleted.
    """
    from markupsafe import Markup

    found = read_image_map(material, features)
    if found is None:
        return None
    words = _missing_words(found)
    if not found.mapped:
        return {"data": None, "words": words, "of_places": False, "drawn": 0, "total": 0}
    pictures, how = small_pictures(material, found)
    data = _data(material, found) | {"pictures": _sheet(material, pictures, folder)}
    return {
        "data": Markup(embedded(data)),
        "words": [_picture_words(found, pictures, how), *words],
        "of_places": found.places is not None,
        "drawn": len(found.sample_ids),
        "total": found.total,
    }


def _missing_words(found: ImageMap) -> list[str]:
    if not found.missing:
        return []
    return [
        f"Without features here: {', '.join(found.missing)}. Their stores were deleted or replaced, "
        "hold maps alone, or hold NaN."
    ]


def _picture_words(found: ImageMap, pictures: Mapping, how: str) -> str:
    if not pictures:
        return how
    drawn = len(found.sample_ids)
    some = (
        ""
        if len(pictures) == drawn
        else f" of {len(pictures)} of the images, those with errors first"
    )
    return f"Pictures{some}: {how}."


def _data(material: Material, found: ImageMap) -> dict:
    card, targets = material.card, targets_of(material.card.task)
    error = error_of(material)
    classes = list(card.classes or [])
    return {
        "ids": found.sample_ids,
        "classes": classes,
        "colours": class_colours(classes) if targets.one_class else [],
        "shared": shared_colours(classes),
        "truth": None if found.truth is None else [_brief(value) for value in found.truth],
        "kind": "class" if targets.one_class else "labels" if targets.several else "number",
        "unit": error.unit if error else None,
        "places": None if found.places is None else [_numbers(one, 7) for one in found.places.T],
        "backbones": [_backbone(one, coloured=targets.one_class) for one in found.mapped],
    }


def _backbone(one: Mapped, *, coloured: bool) -> dict:
    return {
        "name": one.backbone,
        "evaluation": one.evaluation,
        "at": _packed(_fitted(one.coordinates)),
        "shares": [round(float(share), 4) for share in one.shares],
        "near": _packed(one.neighbours),
        "neighbours": one.neighbours.shape[1],
        "answers": [_brief(answer) for answer in one.answers],
        # of classes, the answers say it
        "errors": None if coloured else _numbers(one.errors, 3),
    }


def _fitted(coordinates: np.ndarray) -> np.ndarray:
    """(N, 2) integers from 0 to 65,535, the same step on both axes, centred on the shorter one."""
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    span = float((high - low).max()) or 1.0
    return np.rint(((coordinates - (low + high) / 2) / span + 0.5) * _STEPS)


def _packed(numbers: np.ndarray) -> str:
    """Integers as base64 of little-endian 16-bit ones, row after row."""
    return base64.b64encode(numbers.astype("<u2").tobytes()).decode()


def _numbers(values: np.ndarray, digits: int) -> list[float | None]:
    return [_brief(value, digits) for value in values.tolist()]


def _brief(value, digits: int = 4):
    """A float with few digits, None if it is not finite; anything else as it is."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _sheet(material: Material, pictures: Mapping[int, np.ndarray], folder: Path) -> dict | None:
    """Write all pictures as one JPEG; returns its file, and the tile of each image."""
    if not pictures:
        return None
    from PIL import Image

    across = math.ceil(math.sqrt(len(pictures)))
    sheet = np.zeros((-(-len(pictures) // across) * SIDE, across * SIDE, 3), np.uint8)
    tiles = {}
    for tile, (number, picture) in enumerate(sorted(pictures.items())):
        top, left = tile // across * SIDE, tile % across * SIDE
        colours = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
        height, width = colours.shape[:2]
        top, left = top + (SIDE - height) // 2, left + (SIDE - width) // 2
        sheet[top : top + height, left : left + width] = np.rint(255 * colours)
        tiles[number] = tile
    kept = io.BytesIO()
    Image.fromarray(sheet).save(kept, "JPEG", quality=_QUALITY)
    file = f"image_map__{slug(material.name)}.jpg"
    (folder / file).write_bytes(kept.getvalue())
    return {"file": file, "side": SIDE, "across": across, "tiles": tiles}
