"""What an entry of a detection dataset asks for, and what its card says about the objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.labels.geometries import BOX, POINT, POLYGON
from permafrost.data.records import Record

DEFAULTS = {"min_visible": 0.5, "max_detections": 100, "match_distance": 10}
#: options of an entry that mean something only where the labels are objects
OPTIONS = ("tiles", *DEFAULTS)


def check_options(entry: DatasetEntry, *, where: object) -> None:
    """Refuse options about objects that would do nothing in silence."""
    idle = [key for key in OPTIONS if getattr(entry, key) is not None and not _used(key, entry)]
    if idle:
        raise PermafrostError(
            f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no meaning here: tiles"
            " are for detection and point_detection, max_detections for boxes, min_visible for boxes in"
            " tiles, match_distance for points",
            where=where,
            remedy="remove these keys, or correct the task",
        )


def _used(key: str, entry: DatasetEntry) -> bool:
    targets = targets_of(entry.task)
    if key == "match_distance":
        return targets.points
    if key == "tiles":
        return targets.objects
    # COCO's statistics, which have the cap, are of boxes
    boxes = targets.objects and not targets.points
    return boxes and (key == "max_detections" or entry.tiles is not None)


def check_objects(images: dict[str, Sequence[Record]], *, where: object) -> None:
    """Refuse a split in which there is nothing to find: it could not be scored."""
    for split, records in images.items():
        if not any((~record.objects.crowd).any() for record in records):
            raise PermafrostError(
                f"{split} has no object",
                where=where,
                remedy="change the splits, so that each has images with objects",
            )


def detection_card(entry: DatasetEntry, images: dict[str, Sequence[Record]]) -> dict | None:
    """The card's ``detection``; None where the labels are no objects.

    Parameters
    ----------
    images : the records of whole images of every split.

    Returns
    -------
    ``geometry``; the options with their defaults, ``match_distance`` None but for points; and for
    every split the whole ``images``, ``empty`` ones without an object, ``objects`` without ``crowd``
    regions, how many were ``clipped`` at the edge of their image, and how many boxes were left out,
    ``without_area`` in it. Of images of several sensors, ``reference`` is the one in whose pixels all lengths are.
    """
    if not targets_of(entry.task).objects:
        return None
    # the schema cannot fill these in: an entry that gives one where it does nothing is refused
    options = {
        key: default if getattr(entry, key) is None else getattr(entry, key)
        for key, default in DEFAULTS.items()
    }
    return {
        "geometry": _geometry(entry.task, images),
        "max_detections": int(options["max_detections"]),
        "match_distance": float(options["match_distance"])
        if targets_of(entry.task).points
        else None,
        "min_visible": float(options["min_visible"]),
        "tiles": entry.tiles and asdict(entry.tiles),
        **({"reference": next(iter(entry.modalities))} if entry.modalities else {}),
        "splits": {split: _split(records) for split, records in images.items()},
    }


def _geometry(task: str, images: dict[str, Sequence[Record]]) -> str:
    if targets_of(task).points:
        return POINT
    polygons = (record.objects.polygons for records in images.values() for record in records)
    return POLYGON if any(one is not None for each in polygons for one in each) else BOX


def _split(records: Sequence[Record]) -> dict[str, int]:
    crowd = sum(int(record.objects.crowd.sum()) for record in records)
    return {
        "images": len(records),
        "objects": sum(len(record.objects) for record in records) - crowd,
        "empty": sum(len(record.objects) == 0 for record in records),
        "crowd": crowd,
        "clipped": sum(record.clipped for record in records),
        "without_area": sum(record.without_area for record in records),
    }
