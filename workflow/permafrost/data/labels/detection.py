"""Options and card section of detection datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.labels.geometries import BOX, ORIENTED, POINT, POLYGON
from permafrost.data.records import Record

DEFAULTS = {"min_visible": 0.5, "max_detections": 100, "match_distance": 10}
#: options of an entry that apply only to objects
OPTIONS = ("tiles", *DEFAULTS)


def check_options(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for options about objects that would have no effect."""
    idle = [key for key in OPTIONS if getattr(entry, key) is not None and not _used(key, entry)]
    if idle:
        raise PermafrostError(
            f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no meaning here: tiles"
            " are for objects, max_detections for boxes, min_visible for boxes in tiles, match_distance"
            " for points",
            where=where,
            remedy="remove these keys, or correct the task",
        )


def _used(key: str, entry: DatasetEntry) -> bool:
    targets = targets_of(entry.task)
    if key == "match_distance":
        return targets.points
    if key == "tiles":
        return targets.objects
    # the cap belongs to COCO's metrics, which are for boxes
    boxes = targets.objects and not targets.points
    return boxes and (key == "max_detections" or entry.tiles is not None)


def check_objects(images: Mapping[str, Sequence[Record]], *, where: object) -> None:
    """Raise `PermafrostError` for a split without objects, which could not be scored."""
    for split, records in images.items():
        if not any((~record.objects.crowd).any() for record in records):
            raise PermafrostError(
                f"{split} has no object",
                where=where,
                remedy="change the splits, so that each has images with objects",
            )


def detection_card(entry: DatasetEntry, images: Mapping[str, Sequence[Record]]) -> dict:
    """The card's ``detection``, for labels that are objects.

    Parameters
    ----------
    images : the records of whole images of every split.

    Returns
    -------
    ``geometry``; the options with their defaults, ``match_distance`` is None except for points. For
    every split, the numbers of whole ``images``, ``empty`` images, ``objects`` (without ``crowd``
    regions), objects ``clipped`` at the edge of their image, and boxes dropped because they are
    ``without_area`` in it. With several sensors, ``reference`` is the one whose pixels are the unit
    of all lengths.
    """
    # the schema cannot set these defaults: an entry with an option that has no effect is refused
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


def _geometry(task: str, images: Mapping[str, Sequence[Record]]) -> str:
    targets = targets_of(task)
    if targets.points or targets.oriented:
        return POINT if targets.points else ORIENTED
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
