"""Kinds of sources: one file each, registered here by name.

A new kind is a file with its options as a `permafrost.core.options.Options` and a class that
follows `permafrost.data.records.Source` and is built by ``cls(entry, where=...)`` (or a function
that builds one), plus one line in `KINDS`. The class of options may have ``BY_TASK``: task ->
defaults for it. A module may have a function ``check_entry(entry, where=...)`` that checks the
entry without its data, and ``entry_bands(entry, where=...)`` if the kind itself defines its bands.
Light: the plan reads `KINDS` before any job runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.options import Options, build
from permafrost.core.plugins import Registry, named_object
from permafrost.core.targets import (
    Boxes,
    ChangeMask,
    ClassMask,
    InstanceMasks,
    ManyLabels,
    Number,
    NumberRaster,
    OneClass,
    OrientedBoxes,
    Points,
)
from permafrost.core.tasks import tasks_with
from permafrost.data.entry import DatasetEntry

if TYPE_CHECKING:
    from permafrost.data.bands.sensors import Band
    from permafrost.data.records import Source

_BOXES = tasks_with(Boxes)
_OBJECTS = tasks_with(Boxes, Points)
_INSTANCES = tasks_with(InstanceMasks)
_ORIENTED = tasks_with(OrientedBoxes)
_LABELS = tasks_with(OneClass, ManyLabels, Number, ClassMask, NumberRaster)
# tasks of sources that support several dates
_CHANGE = tasks_with(ChangeMask)


class Kind(NamedTuple):
    """A kind of source.

    Attributes
    ----------
    build : ``module:class``, or the class of a plug-in; the plan follows such texts to find a
        stage's code.
    options : ``module:class`` of its options, or the class of a plug-in.
    tasks : supported tasks.
    places : options with paths of files or folders, or with paths by split. Their content is part
        of a dataset's identity. Empty for generated or downloaded data.
    several : whether it supports several modalities and dates, see `records.Decoded`.
    """

    build: str | Callable
    options: str | type
    tasks: frozenset[str]
    places: tuple[str, ...]
    several: bool = False

    def options_class(self) -> type[Options]:
        """The dataclass of its options."""
        return named_object(self.options)


KINDS: dict[str, Kind] = {
    "coco": Kind(
        "permafrost.data.sources.coco:open_coco",
        "permafrost.data.sources.coco:CocoOptions",
        _OBJECTS | _ORIENTED | _INSTANCES,
        places=("path", "annotations"),
    ),
    "cvat": Kind(
        "permafrost.data.sources.cvat:open_cvat",
        "permafrost.data.sources.cvat:CvatOptions",
        _OBJECTS | _ORIENTED | _INSTANCES,
        places=("path", "annotations"),
    ),
    "deepforest": Kind(
        "permafrost.data.sources.deepforest:open_deepforest",
        "permafrost.data.sources.deepforest:DeepforestOptions",
        _OBJECTS | _ORIENTED | _INSTANCES,
        places=("path", "table"),
    ),
    "demo": Kind(
        "permafrost.data.sources.demo:open_demo",
        "permafrost.data.sources.demo:DemoOptions",
        _LABELS | _OBJECTS | _ORIENTED | _INSTANCES | _CHANGE,
        places=(),
        several=True,
    ),
    "dota": Kind(
        "permafrost.data.sources.dota:open_dota",
        "permafrost.data.sources.dota:DotaOptions",
        _BOXES | _ORIENTED | _INSTANCES,
        places=("path",),
    ),
    "folder": Kind(
        "permafrost.data.sources.folder:open_folder",
        "permafrost.data.sources.folder:FolderOptions",
        tasks_with(OneClass, ClassMask, NumberRaster, ChangeMask),
        places=("path",),
        several=True,
    ),
    "geobench": Kind(
        "permafrost.data.sources.geobench:GeobenchSource",
        "permafrost.data.sources.geobench:GeobenchOptions",
        tasks_with(OneClass, ManyLabels, ClassMask),
        places=("path",),
    ),
    "grid": Kind(
        "permafrost.data.sources.grid:GridSource",
        "permafrost.data.sources.grid_options:GridOptions",
        tasks_with(ClassMask, NumberRaster),
        places=("path",),
        several=True,
    ),
    "points": Kind(
        "permafrost.data.sources.points:open_points",
        "permafrost.data.sources.points:PointsOptions",
        tasks_with(Points),
        places=("path",),
    ),
    "table": Kind(
        "permafrost.data.sources.table:TableSource",
        "permafrost.data.sources.table:TableOptions",
        _LABELS | _CHANGE,
        places=("table", "images"),
        several=True,
    ),
    "torchgeo": Kind(
        "permafrost.data.sources.torchgeo:open_torchgeo",
        "permafrost.data.sources.torchgeo:TorchgeoOptions",
        _LABELS | _BOXES | _ORIENTED | _INSTANCES | _CHANGE,
        places=(),
        several=True,
    ),
    "tortilla": Kind(
        "permafrost.data.sources.tortilla:TortillaSource",
        "permafrost.data.sources.tortilla:TortillaOptions",
        tasks_with(OneClass, ManyLabels, ClassMask, NumberRaster, ChangeMask)
        | _BOXES
        | _ORIENTED
        | _INSTANCES,
        places=("path",),
        several=True,
    ),
    "vectors": Kind(
        "permafrost.data.sources.vectors:open_vectors",
        "permafrost.data.sources.vectors:VectorsOptions",
        _OBJECTS | _ORIENTED | _INSTANCES,
        places=("path",),
    ),
    "voc": Kind(
        "permafrost.data.sources.voc:open_voc",
        "permafrost.data.sources.voc:VocOptions",
        _BOXES | _ORIENTED | _INSTANCES,
        places=("path",),
    ),
    "yolo": Kind(
        "permafrost.data.sources.yolo:open_yolo",
        "permafrost.data.sources.yolo:YoloOptions",
        _BOXES | _ORIENTED | _INSTANCES,
        places=("path",),
    ),
}

KINDS = PLUGINS = Registry("sources", KINDS)


def read_entry(content: dict, *, where: object) -> DatasetEntry:
    """Read an entry in JSON and fill in its defaults.

    Raises
    ------
    PermafrostError : a key is unknown, missing or of another type, or the kind of source is unknown.
    """
    # the plan checks entries by their schema and avoids this import
    from permafrost.core.option_models import read

    source = dict(content["source"])
    kind = source.pop("kind")
    read(kind_of(kind, where=where).options_class(), source, where=f"{where}: source")
    read(DatasetEntry, {**content, "kind": kind}, where=str(where))
    return checked_entry(content, where=where)


def checked_entry(content: dict, *, where: object) -> DatasetEntry:
    """Build an entry from JSON that the schema has checked; raises `PermafrostError` for an unknown kind of source."""
    options = dict(content["source"])
    kind = options.pop("kind")
    source = build(kind_of(kind, where=where).options_class(), options)
    return replace(build(DatasetEntry, {**content, "kind": kind}), source=source)


def open_source(entry: DatasetEntry, *, where: object) -> Source:
    """The source that an entry describes, ready to list its records; its reads are bounded as the entry says."""
    from permafrost.data.files.opening import bounded

    check_source(entry, where=where)
    bound = bounded(entry.largest_image_mb, "largest_image_mb in the entry")
    source = bound(named_object(KINDS[entry.kind].build))(entry, where=where)
    # threads call these, and the bound belongs to a thread
    for name in ("decode", "decode_window", "locate"):
        if hasattr(source, name):
            setattr(source, name, bound(getattr(source, name)))
    return source


def check_source(entry: DatasetEntry, *, where: object) -> None:
    """Validate the source options of an entry without reading data; raises `PermafrostError`."""
    tasks = KINDS[entry.kind].tasks
    if entry.task not in tasks:
        raise PermafrostError(
            f"a source of kind {entry.kind!r} offers {' and '.join(tasks)}, not {entry.task}",
            where=where,
            remedy="correct the task, or use another kind of source",
        )
    check = getattr(_module(entry), "check_entry", None)
    if check is not None:
        check(entry, where=where)


def source_bands(entry: DatasetEntry, *, where: object) -> list[Band]:
    """The bands of the images in order, as the entry declares them."""
    from permafrost.data.sources.common import declared_bands

    return getattr(_module(entry), "entry_bands", declared_bands)(entry, where=where)


def kind_of(name: str, *, where: object = None) -> Kind:
    """The kind of source with that name; raises `PermafrostError` if it is unknown."""
    return look_up(KINDS, name, "unknown kind of source", where=where, remedy="use a known kind")


def _module(entry: DatasetEntry):
    return sys.modules[named_object(KINDS[entry.kind].build).__module__]
