"""Kinds of data: one file each, found by name here.

A new kind is a file with a class that follows `permafrost.data.records.Source` and is built by
``cls(entry, where=...)`` (or a function that builds one), plus one line in `KINDS` and its options in the
schema of dataset entries. A module may have a function ``check_entry(entry, where=...)`` that refuses what is
wrong with the entry whatever the data hold, and ``entry_bands(entry, where=...)`` where the kind itself
knows its bands. Light: the plan reads `KINDS` before any job runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.tasks import tasks_with

if TYPE_CHECKING:
    from permafrost.data.bands import Band
    from permafrost.data.records import Source

_BOXES = tasks_with("boxes")
_OBJECTS = tasks_with("boxes", "points")
_LABELS = tasks_with("label", "labels", "number", "mask", "raster")


class Kind(NamedTuple):
    """A kind of source.

    Attributes
    ----------
    build : module of this package and class; the plan follows such names to find what a stage uses.
    tasks : those that it can serve.
    places : its options that say where files or folders lie: each a place, or places by split. Their
        content is part of a dataset's identity. None of them for data that are generated or downloaded.
    """

    build: str
    tasks: frozenset[str]
    places: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "coco": Kind(
        "permafrost.data.sources.coco:open_coco", _OBJECTS, places=("path", "annotations")
    ),
    "deepforest": Kind(
        "permafrost.data.sources.deepforest:open_deepforest", _OBJECTS, places=("path", "table")
    ),
    "demo": Kind("permafrost.data.sources.demo:open_demo", _LABELS | _OBJECTS, places=()),
    "folder": Kind(
        "permafrost.data.sources.folder:open_folder",
        tasks_with("label", "mask", "raster"),
        places=("path",),
    ),
    "points": Kind(
        "permafrost.data.sources.points:open_points", tasks_with("points"), places=("path",)
    ),
    "table": Kind("permafrost.data.sources.table:TableSource", _LABELS, places=("table", "images")),
    "torchgeo": Kind("permafrost.data.sources.torchgeo:open_torchgeo", _LABELS | _BOXES, places=()),
    "tortilla": Kind(
        "permafrost.data.sources.tortilla:TortillaSource",
        tasks_with("label", "labels", "mask", "raster", "boxes"),
        places=("path",),
    ),
    "voc": Kind("permafrost.data.sources.voc:open_voc", _BOXES, places=("path",)),
    "yolo": Kind("permafrost.data.sources.yolo:open_yolo", _BOXES, places=("path",)),
}


def open_source(entry: dict, *, where: object) -> Source:
    """The source that an entry describes, ready to list its records."""
    check_source(entry, where=where)
    module, name = _module(entry, where)
    return getattr(module, name)(entry, where=where)


def check_source(entry: dict, *, where: object) -> None:
    """Refuse what is wrong with an entry's source whatever the data hold; reads none of them."""
    from permafrost.data.sources.common import require_task

    module, _ = _module(entry, where)
    require_task(entry, kind_of(entry, where=where).tasks, where=where)
    check = getattr(module, "check_entry", None)
    if check is not None:
        check(entry, where=where)


def source_bands(entry: dict, *, where: object) -> list[Band]:
    """The bands of the images, in their order, as the entry says them."""
    from permafrost.data.sources.common import declared_bands

    module, _ = _module(entry, where)
    return getattr(module, "entry_bands", declared_bands)(entry, where=where)


def kind_of(entry: dict, *, where: object = None) -> Kind:
    """The kind of an entry's source; an unknown one is an error."""
    kind = entry["source"]["kind"]
    if kind not in KINDS:
        raise PermafrostError(
            f"unknown kind of source {kind!r}, {near_names(kind, KINDS)}",
            where=where,
            remedy="use a known kind",
        )
    return KINDS[kind]


def _module(entry: dict, where: object):
    """The module of the kind of source, and the name in it that opens one."""
    module, _, name = kind_of(entry, where=where).build.partition(":")
    return import_module(module), name
