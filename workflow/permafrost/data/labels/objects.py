"""Objects in images: boxes, polygons or points, as columns of the tables of samples.

Coordinates are pixels of the whole image, x to the right and y down, with the origin at the outer
corner of its first pixel: pixel i covers [i, i + 1). A window lists its objects in the same
coordinates together with its own position (`WINDOW`), so an object is the same one in all windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

#: one object; ``object`` is its number in the whole image. ``area`` is that of the annotation
#: (COCO: of the mask), else of the polygon or box. For a point it is 0, and both corners are the
#: point
OBJECT = pa.struct(
    [
        ("object", pa.int64()),
        ("class", pa.int32()),
        ("x_min", pa.float64()),
        ("y_min", pa.float64()),
        ("x_max", pa.float64()),
        ("y_max", pa.float64()),
        ("area", pa.float64()),
        ("crowd", pa.bool_()),
        ("polygon", pa.list_(pa.list_(pa.float64()))),
        ("mask", pa.string()),
    ]
)
OBJECTS = pa.field("objects", pa.list_(OBJECT))
#: position of a sample in its whole image; an uncut image is its own window
WINDOW = (
    pa.field("image_id", pa.string()),
    pa.field("x_offset", pa.int32()),
    pa.field("y_offset", pa.int32()),
    pa.field("image_height", pa.int32()),
    pa.field("image_width", pa.int32()),
)


@dataclass(frozen=True)
class Objects:
    """The objects of one image, or those that intersect one window.

    Attributes
    ----------
    numbers : (N,) int64, unique in the whole image.
    classes : (N,) int32 ids.
    boxes : (N, 4) float64 ``x_min, y_min, x_max, y_max``, see above.
    areas : (N,) float64.
    crowd : (N,) bool; regions of objects that cannot be separated or are too doubtful to score.
        Predictions there are ignored, and nothing is trained on them.
    polygons : N lists of rings ``[x0, y0, x1, y1, …]``, whose union is the object, or None without
        a polygon. That of an oriented box is one ring of its four corners (`oriented.polygons_of`), and
        `boxes` has the upright box around it.
    masks : N masks of the whole image as COCO's compressed run lengths, for objects whose
        annotation is a raster; None for all others.
    """

    numbers: np.ndarray
    classes: np.ndarray
    boxes: np.ndarray
    areas: np.ndarray
    crowd: np.ndarray
    polygons: tuple[list[list[float]] | None, ...]
    masks: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(
        cls,
        boxes,
        classes,
        *,
        numbers=None,
        areas=None,
        crowd=None,
        polygons: Sequence | None = None,
        masks: Sequence | None = None,
    ) -> Objects:
        """Objects from boxes (N, 4) and class ids (N,); the other fields default to 0..N-1, box
        areas, no crowds, no polygons, no masks."""
        boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
        count = len(boxes)
        sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
        return cls(
            numbers=np.arange(count) if numbers is None else np.asarray(numbers, np.int64),
            classes=np.asarray(classes, np.int32).reshape(count),
            boxes=boxes,
            areas=sides.prod(axis=1) if areas is None else np.asarray(areas, np.float64),
            crowd=np.zeros(count, bool) if crowd is None else np.asarray(crowd, bool),
            polygons=(None,) * count if polygons is None else tuple(polygons),
            masks=(None,) * count if masks is None else tuple(masks),
        )

    def take(self, which: np.ndarray) -> Objects:
        """The objects at these positions, or where a mask (N,) is True."""
        places = np.arange(len(self))[which]
        return Objects(
            self.numbers[places],
            self.classes[places],
            self.boxes[places],
            self.areas[places],
            self.crowd[places],
            tuple(self.polygons[place] for place in places),
            tuple(self.masks[place] for place in places),
        )

    @classmethod
    def joined(cls, parts: Sequence[Objects]) -> Objects:
        """All objects of all parts, in order."""
        every = (NO_OBJECTS, *parts)
        return cls(  # type: ignore[call-arg]  # unpacks five arrays
            *(
                np.concatenate([getattr(part, name) for part in every])
                for name in ("numbers", "classes", "boxes", "areas", "crowd")
            ),
            *(
                tuple(one for part in every for one in getattr(part, name))
                for name in ("polygons", "masks")
            ),
        )

    @property
    def centres(self) -> np.ndarray:
        """(N, 2) x and y of the box centres; for points, the points."""
        return (self.boxes[:, :2] + self.boxes[:, 2:]) / 2


NO_OBJECTS = Objects.of(np.empty((0, 4)), np.empty(0))


def objects_column(images: Sequence[Objects]) -> pa.Array:
    """The column ``objects`` of a table with one row per image or window."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in images], dtype=np.int64)])
    every = Objects.joined(images)
    columns = [
        every.numbers,
        every.classes,
        *every.boxes.T,
        every.areas,
        every.crowd,
        every.polygons,
        every.masks,
    ]
    fields = [OBJECT.field(place) for place in range(OBJECT.num_fields)]
    arrays = [pa.array(each, field.type) for each, field in zip(columns, fields, strict=True)]
    structs = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)


_PLAIN = ("object", "class", "x_min", "y_min", "x_max", "y_max", "area")


def objects_of(column: pa.ChunkedArray | pa.Array) -> list[Objects]:
    """The objects of each row of the column ``objects``."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    offsets = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int32)
    # `values` ignores where a slice begins, but the offsets do not
    values = lists.values
    arrays = {name: values.field(name).to_numpy() for name in _PLAIN}
    crowd = values.field("crowd").to_numpy(zero_copy_only=False).astype(bool)
    polygons = values.field("polygon").to_pylist()
    # tables of earlier releases have no masks
    known = values.type.get_field_index("mask") >= 0
    masks = values.field("mask").to_pylist() if known else [None] * len(values)
    boxes = np.stack([arrays[name] for name in ("x_min", "y_min", "x_max", "y_max")], axis=1)
    return [
        Objects(
            arrays["object"][start:stop],
            arrays["class"][start:stop],
            boxes[start:stop],
            arrays["area"][start:stop],
            crowd[start:stop],
            tuple(polygons[start:stop]),
            tuple(masks[start:stop]),
        )
        for start, stop in zip(offsets[:-1], offsets[1:], strict=True)
    ]
