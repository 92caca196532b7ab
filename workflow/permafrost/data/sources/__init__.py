"""Kinds of data: one file each, found by name here.

A new kind is a file with a class that follows `permafrost.data.records.Source` and is built by
``cls(entry, where=...)`` (or a function that builds one), plus one line in `KINDS` and its options in the schema of dataset entries.
"""

from __future__ import annotations

from importlib import import_module

from permafrost.core.errors import PermafrostError, near_names

from ..records import Source

#: kind -> module of this package and class; the plan follows such names to find what a stage uses
KINDS: dict[str, str] = {
    "coco": ".coco:open_coco",
    "deepforest": ".deepforest:open_deepforest",
    "demo": ".demo:open_demo",
    "folder": ".folder:open_folder",
    "points": ".points:open_points",
    "table": ".table:TableSource",
    "torchgeo": ".torchgeo:open_torchgeo",
    "voc": ".voc:open_voc",
    "yolo": ".yolo:open_yolo",
}


def open_source(entry: dict, *, where: object) -> Source:
    """The source that an entry describes, ready to list its records."""
    kind = entry["source"]["kind"]
    if kind not in KINDS:
        raise PermafrostError(
            f"unknown kind of source {kind!r}; {near_names(kind, KINDS)}",
            where=where,
            remedy="use a known kind",
        )
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module, __package__), name)(entry, where=where)
