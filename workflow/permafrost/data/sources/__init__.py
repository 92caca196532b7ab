"""Kinds of data: one file each, found by name here.

A new kind is a file with a class that follows `permafrost.data.records.Source` and is built by
``cls(entry, where=...)`` (or a function that builds one), plus one line in `KINDS` and its options in the schema of dataset entries.
Light: the plan reads `KINDS` before any job runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from permafrost.core.errors import PermafrostError, near_names

if TYPE_CHECKING:
    from ..records import Source


class Kind(NamedTuple):
    """A kind of source.

    Attributes
    ----------
    build : module of this package and class; the plan follows such names to find what a stage uses.
    places : its options that say where files or folders lie: each a place, or places by split. Their
        content is part of a dataset's identity. None of them for data that are generated or downloaded.
    """

    build: str
    places: tuple[str, ...]


KINDS: dict[str, Kind] = {
    "coco": Kind(".coco:open_coco", places=("path", "annotations")),
    "deepforest": Kind(".deepforest:open_deepforest", places=("path", "table")),
    "demo": Kind(".demo:open_demo", places=()),
    "folder": Kind(".folder:open_folder", places=("path",)),
    "points": Kind(".points:open_points", places=("path",)),
    "table": Kind(".table:TableSource", places=("table", "images")),
    "torchgeo": Kind(".torchgeo:open_torchgeo", places=()),
    "voc": Kind(".voc:open_voc", places=("path",)),
    "yolo": Kind(".yolo:open_yolo", places=("path",)),
}


def kind_of(entry: dict, *, where: object = None) -> Kind:
    """The kind of an entry's source; an unknown one is an error."""
    kind = entry["source"]["kind"]
    if kind not in KINDS:
        raise PermafrostError(
            f"unknown kind of source {kind!r}; {near_names(kind, KINDS)}",
            where=where,
            remedy="use a known kind",
        )
    return KINDS[kind]


def open_source(entry: dict, *, where: object) -> Source:
    """The source that an entry describes, ready to list its records."""
    module, _, name = kind_of(entry, where=where).build.partition(":")
    return getattr(import_module(module, __package__), name)(entry, where=where)
