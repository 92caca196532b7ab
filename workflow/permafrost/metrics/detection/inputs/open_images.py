"""Open Images' CSV files, as columns of COCO JSON.

| file | columns |
|---|---|
| truth | ``ImageID``, ``LabelName``, ``XMin``, ``XMax``, ``YMin``, ``YMax`` (0 to 1), ``IsGroupOf`` (1, else 0 or -1) |
| detections | the same without ``IsGroupOf``, and ``Score`` (or ``Conf``, ``Confidence``) |
| image labels | ``ImageID``, ``LabelName``, ``Confidence``: 1, a person saw the class; 0, it is not there |
| class names | a line ``LabelName,name`` per class, with or without a head |

The hierarchy is the published JSON: a tree of ``LabelName`` and ``Subcategory``, under one root that is not a class.
A box also counts for the classes above its own, a label of 0 also for those below it
(``oid_hierarchical_labels_expansion`` of TensorFlow's models).
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.inputs import read_text
from permafrost.metrics.detection.inputs.parsing import is_path, parse, read_file

_IMAGE, _CLASS, _GROUP, _SEEN = "ImageID", "LabelName", "IsGroupOf", "Confidence"
_SIDES = ("XMin", "YMin", "XMax", "YMax")
_SCORES = ("Score", "Conf", "Confidence")
_DROPPED = "a line of another form"


@dataclass(frozen=True)
class Hierarchy:
    """Classes above and below each class, without itself; a class may be at several places of the tree."""

    above: dict[str, frozenset[str]]
    below: dict[str, frozenset[str]]

    def upward(self, label: str) -> list[str]:
        """The class and all above it."""
        return [label, *sorted(self.above.get(label, ()))]

    def downward(self, label: str) -> list[str]:
        """The class and all below it."""
        return [label, *sorted(self.below.get(label, ()))]


FLAT = Hierarchy({}, {})


@dataclass(frozen=True)
class OpenImages:
    """Truth and detections to evaluate.

    Attributes
    ----------
    truth, predictions : in the form of `evaluate`'s arguments.
    verified : (image id, class id) of which detections count; None: all.
    dropped : reason to the number of lines omitted for it.
    """

    truth: dict
    predictions: object
    verified: set[tuple[str, str]] | None
    dropped: dict[str, int]


def is_open_images(given) -> bool:
    """Whether it is the path of a CSV file."""
    return is_path(given) and Path(given).suffix.lower() == ".csv"


def read_open_images(
    truth,
    predictions,
    *,
    image_labels=None,
    hierarchy=None,
    class_names=None,
    both: bool = False,
    drop: bool = False,
    images=None,
) -> OpenImages:
    """Read CSV files, all paths; see the module.

    Parameters
    ----------
    image_labels : with them, detections of a class count only on images that have a label or box of it. Without, all
        count on images with boxes, and on `images`, ids of further ones without boxes.
    both : the hierarchy holds for detections, too, not only for the truth.
    drop : leave out and count invalid lines of boxes.

    Raises
    ------
    PermafrostError : a file without a column, an invalid line, a hierarchy of other classes.
    """
    tree = FLAT if hierarchy is None else read_hierarchy(hierarchy)
    dropped: Counter[str] = Counter()
    boxes = list(_boxes(truth, (_GROUP,), drop, dropped))
    labels = [] if image_labels is None else list(_labels(image_labels))
    named = {label for _, label, *_ in boxes} | {label for _, label, _ in labels}
    if tree is not FLAT and named and not named & tree.above.keys():
        raise PermafrostError(
            f"holds none of the truth's classes, such as {min(named)}",
            where=hierarchy,
            remedy="give the hierarchy of this release, with the same LabelNames",
        )
    rows = [(i, up, box, group) for i, own, box, group in boxes for up in tree.upward(own)]
    verified = {(image, label) for image, label, *_ in rows}
    for image, label, seen in labels:
        verified.update((image, each) for each in (tree.upward if seen else tree.downward)(label))
    known_images = {image for image, _ in verified}
    if image_labels is None:
        known_images.update(map(str, images or ()))
    known = {label for _, label in verified} | tree.above.keys()
    names = {} if class_names is None else read_names(class_names)
    found = _detections(predictions, tree if both else FLAT, drop, dropped)
    counted = _counted(found, known_images, known | names.keys(), predictions, dropped)
    return OpenImages(
        truth={
            "images": [{"id": i, "width": 1, "height": 1} for i in sorted(known_images)],
            "categories": [
                {"id": each, "name": names.get(each, each)} for each in sorted(known | names.keys())
            ],
            "annotations": _annotations(rows),
        },
        predictions=counted,
        verified=None if image_labels is None else verified,
        dropped=dict(dropped),
    )


def read_hierarchy(path) -> Hierarchy:
    """The published tree; raises `PermafrostError` for JSON that is not one."""
    root = parse(read_file(path), path)
    above: dict[str, set[str]] = {}
    below: dict[str, set[str]] = {}
    waiting: list[tuple[object, tuple[str, ...] | None]] = [(root, None)]
    while waiting:
        node, path_above = waiting.pop()
        if not isinstance(node, dict) or not isinstance(node.get(_CLASS), str):
            raise PermafrostError(
                "is not a tree of classes",
                where=path,
                remedy="give Open Images' hierarchy: LabelName, and Subcategory with a list of such objects",
            )
        label = node[_CLASS]
        if path_above is not None:
            above.setdefault(label, set()).update(path_above)
            below.setdefault(label, set())
            for each in path_above:
                below[each].add(label)
        deeper = () if path_above is None else (*path_above, label)
        waiting += [(child, deeper) for child in node.get("Subcategory", [])]
    return Hierarchy(
        {label: frozenset(some - {label}) for label, some in above.items()},
        {label: frozenset(some - {label}) for label, some in below.items()},
    )


def read_names(path) -> dict[str, str]:
    """LabelName to the name that is shown."""
    lines = list(csv.reader(read_text(path).split("\n")))
    pairs = [line for line in lines if line and line[0] != _CLASS]
    for line in pairs:
        if len(line) != 2:
            raise PermafrostError(
                f"a line is not LabelName,name: {','.join(line)[:80]}",
                where=path,
                remedy="give Open Images' class descriptions",
            )
    return {label: name for label, name in pairs}


def _annotations(rows: list) -> dict:
    """Columns of the truth's boxes."""
    boxes = [box for _, _, box, _ in rows]
    return {
        "id": list(range(1, len(rows) + 1)),
        "image_id": [image for image, *_ in rows],
        "category_id": [label for _, label, *_ in rows],
        "bbox": boxes,
        "area": [width * height for _, _, width, height in boxes],
        "iscrowd": [int(group == "1") for *_, group in rows],
    }


def _detections(path, tree: Hierarchy, drop: bool, dropped: Counter) -> Iterator[tuple]:
    """Image, class, box and score."""
    for image, own, box, score in _boxes(path, _SCORES, drop, dropped):
        for label in tree.upward(own):
            yield image, label, box, float(score)


def _counted(found: Iterator[tuple], images: set, classes: set, path, dropped: Counter):
    """Columns of detections on known images and of known classes; others are counted."""
    rows = []
    total = 0
    for row in found:
        total += 1
        if row[0] not in images:
            dropped["detections on images without boxes and labels"] += 1
        elif row[1] not in classes:
            dropped["detections of classes without boxes and labels"] += 1
        else:
            rows.append(row)
    if total and not rows:
        raise PermafrostError(
            "no detection is of an image and a class of the truth",
            where=path,
            remedy="check that it belongs to this truth: ImageID and LabelName must be the same",
        )
    columns = map(list, zip(*rows, strict=True))
    return (
        dict(zip(("image_id", "category_id", "bbox", "score"), columns, strict=True))
        if rows
        else []
    )


def _labels(path) -> Iterator[tuple[str, str, bool]]:
    for number, (image, label, seen) in _rows(path, (_IMAGE, _CLASS, (_SEEN,))):
        if seen not in ("0", "1", "0.0", "1.0"):
            raise PermafrostError(
                f"Confidence is {seen!r}, not 0 or 1",
                where=f"{path}:{number}",
                remedy="give the labels that people verified",
            )
        yield image, label, seen[0] == "1"


def _boxes(path, last: tuple[str, ...], drop: bool, dropped: Counter) -> Iterator[tuple]:
    """Image, class, [x, y, width, height], and the first of the columns `last` that the file has."""
    group = last == (_GROUP,)
    for number, (image, label, *texts) in _rows(path, (_IMAGE, _CLASS, *_SIDES, last)):
        problem = None
        try:
            left, top, right, bottom, value = map(float, texts)
        except ValueError:
            problem = "XMin, YMin, XMax, YMax and the last are not all numbers"
        else:
            if not math.isfinite(left + top + right + bottom + value):
                problem = "a number is not finite"
            elif right < left or bottom < top:
                problem = "the box has a negative size"
            elif group and texts[-1] not in ("-1", "0", "1"):
                problem = f"IsGroupOf is {texts[-1]!r}, not 1, 0 or -1 (unknown)"
        if problem is None:
            yield image, label, [left, top, right - left, bottom - top], texts[-1]
        elif drop:
            dropped[_DROPPED] += 1
        else:
            raise PermafrostError(problem, where=f"{path}:{number}", remedy="correct the line")


def _rows(path, columns: tuple) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of these columns; a tuple of names is the first that the file has."""
    reader = csv.reader(read_text(path).split("\n"))
    head = next(reader, [])
    places = []
    for wanted in columns:
        names = wanted if isinstance(wanted, tuple) else (wanted,)
        place = next((head.index(name) for name in names if name in head), None)
        if place is None:
            raise PermafrostError(
                f"there is no column {' or '.join(names)}",
                where=path,
                remedy=f"write Open Images' columns; the file has {', '.join(head)[:200] or 'none'}",
            )
        places.append(place)
    for line in filter(None, reader):
        if len(line) != len(head):
            raise PermafrostError(
                f"the line has {len(line)} values, the head {len(head)}",
                where=f"{path}:{reader.line_num}",
                remedy="correct the line",
            )
        yield reader.line_num, [line[place] for place in places]
