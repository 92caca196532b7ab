"""What the sources of image files share: declared bands, decoding options, classes."""

from __future__ import annotations

from collections.abc import Sequence

from permafrost.core.errors import PermafrostError, near_names
from permafrost.data.bands import dataset_bands
from permafrost.data.decode import Decoding
from permafrost.data.sensors import Band
from permafrost.data.units import resolve_unit


def declared_bands(entry: dict, *, where: object) -> list[Band]:
    """The bands of an entry with their units: both are declared, never guessed from the files."""
    if not entry.get("bands"):
        raise PermafrostError(
            "the entry names no bands",
            where=where,
            remedy="list the bands in the order of the files, e.g. bands: [red, green, blue]"
            + (
                ""
                if "units" in entry
                else ", and what their values mean, e.g. units: {unit: uint8}"
            ),
        )
    bands = []
    for band in dataset_bands(entry["bands"], entry.get("sensor"), where=where):
        own = {
            key: value
            for key, value in (("unit", band.unit), ("scale", band.scale), ("offset", band.offset))
            if value is not None
        }
        declared = own if "unit" in own else {**entry.get("units", {}), **own}
        if "unit" not in declared:
            raise PermafrostError(
                f"band {band.name} has no unit",
                where=where,
                remedy="declare units: {unit: …} for all bands, or a unit for each band",
            )
        bands.append(Band(**{**band.as_dict(), **resolve_unit(declared, where=where)}))
    return bands


def decoding_of(entry: dict, bands: Sequence[Band]) -> Decoding:
    """How the entry lets its files be read."""
    return Decoding(len(bands), frozenset(entry.get("convert", ())), "nodata" in entry)


def class_ids(names: Sequence[str], declared: Sequence[str] | None, *, where: object):
    """Ids for class names: in the entry's order where it lists them, else in alphabetical order.

    Returns
    -------
    (list of classes, mapping of name to id).
    """
    found = sorted(set(names))
    classes = list(declared) if declared else found
    if len(set(classes)) < len(classes):
        raise PermafrostError("classes lists a name twice", where=where, remedy="list each once")
    unknown = [name for name in found if name not in set(classes)]
    if unknown:
        raise PermafrostError(
            f"the data holds classes that the entry does not list: {', '.join(unknown[:20])};"
            f" {near_names(unknown[0], classes)}",
            where=where,
            remedy="add them to classes, or remove classes to use all that the data holds",
        )
    return classes, {name: number for number, name in enumerate(classes)}


def required_classes(entry: dict, *, where: object) -> list[str]:
    """The classes of masks, in the order of their ids: the entry has to list them."""
    if not entry.get("classes"):
        raise PermafrostError(
            "masks need the list of classes",
            where=where,
            remedy="add classes to the entry, in the order of their ids",
        )
    return list(entry["classes"])


def require_task(entry: dict, tasks: Sequence[str], *, where: object) -> str:
    """The task of the entry, where this kind of source can serve it."""
    task = entry["task"]
    if task not in tasks:
        raise PermafrostError(
            f"a source of kind {entry['source']['kind']!r} offers {' and '.join(tasks)}, not {task}",
            where=where,
            remedy="correct the task, or use another kind of source",
        )
    return task
