"""Truth and detections as columns, the input of all later steps; and a digest of a truth."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace

import numpy as np

from permafrost.core.errors import look_up
from permafrost.metrics.detection.inputs.forms import Compressed, taken


@dataclass(frozen=True)
class Images:
    """The I images, ascending by id.

    Attributes
    ----------
    ids : (I,) int64 or strings.
    widths, heights : (I,) int64 pixels; 0 if unknown.
    negative, not_exhaustive : LVIS only: per image the positions of the categories that are verified
        to be absent, and of those that are not fully annotated.
    """

    ids: np.ndarray
    widths: np.ndarray
    heights: np.ndarray
    negative: list | None = None
    not_exhaustive: list | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Categories:
    """The K categories, ascending by id; `frequencies` (LVIS) are 'r', 'c', 'f' or ''."""

    ids: np.ndarray
    names: tuple[str, ...]
    frequencies: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Notes:
    """Warnings and omissions of reading.

    Attributes
    ----------
    warnings : sentences for the report.
    dropped : reason to the number of entries omitted for it.
    """

    warnings: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Whole:
    """The whole truth, if an evaluation covers only some of its images.

    Attributes
    ----------
    digest : digest of all its images, categories and annotations, see `digest`.
    images : number of its images.
    elsewhere : number of detections on its other images, which are not evaluated.
    """

    digest: str
    images: int
    elsewhere: int = 0


class Named:
    """A table that names its rows for messages."""

    source: str
    entries: np.ndarray
    ids: np.ndarray
    # name of the list in the file; "" if the file is the list
    section = ""

    def where(self, row: int) -> str:
        """The file's entry of a row, named as by `Columns.where`."""
        number = f" (id {self.ids[row]})" if self.section else ""
        return f"{self.source}: {self.section}[{self.entries[row]}]{number}"


@dataclass(frozen=True)
class Truths(Named):
    """N annotated objects, in file order.

    Attributes
    ----------
    source : name of the file, for messages.
    images, categories : the images and categories that `image` and `category` index.
    entries : (N,) position of each in the file.
    ids : (N,) int64 or strings.
    image, category : (N,) positions.
    boxes : (N, 4) x, y, width, height in pixels; NaN if missing and not needed.
    areas : (N,) square pixels, from the file; if missing there, of the mask or box.
    crowd : (N,) bool.
    ignored : (N,) bool: excluded from the score in every area range.
    segmentations : N raw COCO segmentations, or None.
    keypoints : (N, J, 3) x, y, visibility, or None.
    corners : (N, 4, 2) x, y of the corners of oriented boxes, or None. Boxes are then those around them.
    """

    source: str
    images: Images
    categories: Categories
    entries: np.ndarray
    ids: np.ndarray
    image: np.ndarray
    category: np.ndarray
    boxes: np.ndarray
    areas: np.ndarray
    crowd: np.ndarray
    ignored: np.ndarray
    segmentations: list | Compressed | None = None
    keypoints: np.ndarray | None = None
    corners: np.ndarray | None = None
    notes: Notes = field(default_factory=Notes)

    section = "annotations"

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Detections(Named):
    """N detections, in file order; columns as in `Truths`.

    Attributes
    ----------
    ids : (N,) ids of the file, or 1, 2, … as in pycocotools.
    scores : (N,) float64, finite.
    areas : (N,) square pixels; an area of a mask is NaN until the masks are read.
    """

    source: str
    entries: np.ndarray
    ids: np.ndarray
    image: np.ndarray
    category: np.ndarray
    scores: np.ndarray
    boxes: np.ndarray
    areas: np.ndarray
    segmentations: list | Compressed | None = None
    keypoints: np.ndarray | None = None
    corners: np.ndarray | None = None
    notes: Notes = field(default_factory=Notes)

    def __len__(self) -> int:
        return len(self.ids)


def rows_of(table, keep: np.ndarray):
    """`table` with the rows where `keep` is true (a bool mask or positions)."""
    changed = {}
    positions = np.flatnonzero(keep) if keep.dtype == bool else keep
    for item in fields(table):
        value = getattr(table, item.name)
        if isinstance(value, np.ndarray):
            changed[item.name] = value[keep]
        elif item.name == "segmentations" and value is not None:
            changed[item.name] = taken(value, positions)
    return replace(table, **changed)


def restrict(
    truths: Truths, detections: Detections, chosen: np.ndarray
) -> tuple[Truths, Detections]:
    """The rows of the chosen images ((I,) bool), which are renumbered."""
    number = np.cumsum(chosen) - 1
    images = _images(truths.images, np.flatnonzero(chosen))
    truths = rows_of(truths, chosen[truths.image])
    detections = rows_of(detections, chosen[detections.image])
    return (
        replace(truths, images=images, image=number[truths.image]),
        replace(detections, image=number[detections.image]),
    )


def _images(images: Images, rows: np.ndarray) -> Images:
    lists = {
        name: [values[row] for row in rows.tolist()]
        for name, values in (
            ("negative", images.negative),
            ("not_exhaustive", images.not_exhaustive),
        )
        if values is not None
    }
    sizes = images.ids[rows], images.widths[rows], images.heights[rows]
    return Images(*sizes, **lists)


def unknown_problem(key: str, wanted: np.ndarray, known: np.ndarray, whose: str) -> str:
    """The message for ids that are not among the `known`; says if they have another type."""
    kinds = {True: "words", False: "whole numbers"}
    own, other = (ids.dtype.kind == "U" for ids in (wanted, known))
    if len(known) and own != other:
        return f"{key} is no id of {whose}: those are {kinds[other]}, these are {kinds[own]}"
    return f"{key} is not among {whose}"


def positions_of(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of every wanted id in the ascending `known` ids, -1 if it is not among them."""
    if not len(known) or not len(wanted) or (known.dtype.kind == "U") != (wanted.dtype.kind == "U"):
        return np.full(len(wanted), -1, np.int64)
    found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[found] == wanted, found, -1)


@dataclass(frozen=True)
class Reading:
    """Options of reading truth and predictions.

    Attributes
    ----------
    iou_type : decides which geometry is required.
    strict : treat rows without a known image or category, the ``ignore`` flag and missing masks as pycocotools
        does; see `truth.read_truth` and `predictions.read_predictions`.
    lvis : read LVIS's frequencies and lists of categories.
    use_categories : False reads truth without categories.
    detection_area : geometry that decides the area range of an unmatched detection: ``bbox``, ``mask``, or
        ``auto``, the box if there is one.
    joints : number of keypoints of an object.
    drop : omit invalid entries and count them.
    box_convention : convention of oriented boxes of five numbers.
    """

    iou_type: str
    strict: bool = False
    lvis: bool = False
    use_categories: bool = True
    detection_area: str = "auto"
    joints: int = 17
    drop: bool = False
    box_convention: str | None = None

    @property
    def by_mask(self) -> bool:
        """Whether masks are compared."""
        return self.iou_type in ("segm", "boundary")

    @property
    def oriented(self) -> bool:
        """Whether oriented boxes are compared."""
        return self.iou_type == "oriented"


def check_choice(value: str, choices, what: str) -> None:
    """Refuse a value that is not one of `choices`."""

    look_up(choices, value, f"no {what}", where=what)


def digest(truths: Truths) -> str:
    """Digest (32 hexadecimal digits) of all images, categories and annotations, including geometry."""
    total = hashlib.sha256()
    images, categories = truths.images, truths.categories
    arrays = [images.ids, images.widths, images.heights, categories.ids]
    names = ("ids", "image", "category", "boxes", "areas", "crowd", "ignored")
    arrays += [getattr(truths, name) for name in names]
    arrays += [own for own in (truths.keypoints, truths.corners) if own is not None]
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    lists = [
        None if values is None else [value.tolist() for value in values]
        for values in (images.negative, images.not_exhaustive)
    ]
    words = [categories.names, categories.frequencies, lists, truths.segmentations]
    total.update(json.dumps(words, default=plain).encode())
    return total.hexdigest()[:32]


def plain(value):
    """Convert values that JSON lacks: run lengths as bytes, masks, NumPy numbers and arrays."""
    if isinstance(value, Compressed):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
