"""Tables in DeepForest's columns, converted to the content of COCO JSON.

Images are identified by their path and categories by their label. The id of a box is its line in the file (or
its row in a frame), which messages and tables show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.geometries import BOX
from permafrost.metrics.detection.inputs.parsing import is_path

if TYPE_CHECKING:
    from permafrost.data.deepforest.annotations import Annotations

COLUMN = "image_path"


@dataclass(frozen=True)
class TableEntries:
    """The content of a table in the form of parsed JSON.

    Attributes
    ----------
    data : truth: a dict with images, categories and annotations; predictions: a list.
    source : name of the file, for messages.
    dropped : reason to the number of rows omitted for it.
    """

    data: dict | list
    source: str
    dropped: dict[str, int]


def is_crown_table(given) -> bool:
    """Whether it is the path of a CSV file, or a data frame with a column ``image_path``."""
    if is_path(given):
        return Path(given).suffix.lower() == ".csv"
    names = getattr(given, "column_names", getattr(given, "columns", ()))
    return any(isinstance(name, str) and name == COLUMN for name in names)


def truth_entries(given, *, iou_type: str = "bbox", drop: bool = False) -> TableEntries:
    """Read ground truth. A row of zeros means an image without boxes; polygons become their bounding boxes.

    Raises
    ------
    PermafrostError : see `permafrost.data.deepforest.reading.read_annotations`; `iou_type` is not ``bbox``.
    """
    if iou_type != "bbox":
        raise PermafrostError(
            f"a table of crowns holds no {iou_type}",
            where=given if is_path(given) else "truth",
            remedy="evaluate boxes (--iou-type bbox); evaluate-boxes compares polygons",
        )
    found = _read(given, "truth", drop)
    labels = sorted(set(found.label.tolist()))
    data = {
        "images": [{"id": name} for name in found.images],
        "categories": [{"id": label, "name": label} for label in labels],
        "annotations": [
            {"id": row, **entry, "area": entry["bbox"][2] * entry["bbox"][3], "iscrowd": 0}
            for row, entry in zip(found.row.tolist(), _entries(found), strict=True)
        ],
    }
    return TableEntries(data, found.where, found.dropped)


def prediction_entries(given, *, drop: bool = False) -> TableEntries:
    """Read detections; raises `PermafrostError` as `truth_entries`, and without a column ``score``."""
    found = _read(given, "predictions", drop)
    if not found.has_scores:
        raise PermafrostError(
            "there is no column 'score'",
            where=found.where,
            remedy="add the score of each prediction",
        )
    data = [
        {"id": row, **entry, "score": score}
        for row, entry, score in zip(
            found.row.tolist(), _entries(found), found.score.tolist(), strict=True
        )
    ]
    return TableEntries(data, found.where, found.dropped)


def _read(given, what: str, drop: bool) -> Annotations:
    # it loads Shapely, which JSON does not need
    from permafrost.data.deepforest.reading import read_annotations

    source = Path(given) if is_path(given) else given
    return read_annotations(source, what, geometry=BOX, invalid="drop" if drop else "error")


def _entries(found: Annotations):
    """Image, category and box (x, y, width, height) of each crown."""
    corners = found.shape.reshape(-1, 4)
    sides = corners[:, 2:] - corners[:, :2]
    rows = zip(
        found.image.tolist(), found.label, corners[:, :2].tolist(), sides.tolist(), strict=True
    )
    for image, label, corner, size in rows:
        yield {
            "image_id": found.images[image],
            "category_id": label,
            "bbox": [*corner, *size],
        }
