"""Code shared by sources of image files: declared bands, decoding options, classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.tasks import targets_of
from permafrost.data.bands.selection import dataset_bands
from permafrost.data.bands.sensors import Band
from permafrost.data.bands.units import resolve_unit
from permafrost.data.entry import DatasetEntry, Modality, Units
from permafrost.data.files.decode import Decoding, UnreadableImage
from permafrost.data.labels.masks import MaskCoding, mask_coding
from permafrost.data.labels.rasters import TargetCoding
from permafrost.data.records import Record


class ListedSource:
    """A source that lists its records when it opens."""

    _records: list[Record]

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        self._entry, self._where = entry, where
        self.task: str = entry.task
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = entry.ignore_index

    def records(self) -> list[Record]:
        return self._records

    def locate(self, index: int) -> tuple[float | None, float | None]:
        """The coordinates of the record."""
        record = self._records[index]
        return record.lon, record.lat


def pixel_coding(
    entry: DatasetEntry, classes: Sequence[str], *, where: object
) -> MaskCoding | TargetCoding | None:
    """How to read the entry's masks or target rasters; None for other labels."""
    targets = targets_of(entry.task)
    if targets.numbers and targets.pixels:
        return TargetCoding.of(entry.target)
    return mask_coding(entry, classes, where=where) if targets.masks else None


def declared_bands(entry: DatasetEntry, *, where: object) -> list[Band]:
    """The bands of an entry with their units, both as declared.

    With several modalities, their bands follow each other. A name that occurs in two of them gets
    its modality as prefix (``s1_asc:VV``), so that names are unique.
    """
    if entry.modalities is None:
        return _bands_of(entry, entry, where)
    several = {
        name: _bands_of(one, entry, f"{where}: modalities.{name}")
        for name, one in entry.modalities.items()
    }
    times = Counter(band.name for bands in several.values() for band in bands)
    return [
        replace(
            band,
            modality=modality,
            name=band.name if times[band.name] == 1 else f"{modality}:{band.name}",
        )
        for modality, bands in several.items()
        for band in bands
    ]


def _bands_of(one: DatasetEntry | Modality, entry: DatasetEntry, where: object) -> list[Band]:
    """The bands of an entry or of one of its modalities; the entry's units apply to all modalities."""
    if not one.bands:
        raise PermafrostError(
            "the entry has no bands",
            where=where,
            remedy="list the bands in the order of the files, e.g. bands: [red, green, blue]"
            + (", and their units, e.g. units: {unit: uint8}" if not entry.units else ""),
        )
    units = one.units or entry.units
    return [
        replace(band, **resolve_unit(_unit_of(band, units, where), where=where))
        for band in dataset_bands(one.bands, one.sensor or entry.sensor, where=where)
    ]


def _unit_of(band: Band, common: Units | None, where: object) -> Units:
    """The unit of a band: its own, else the common one with the band's own scale and offset."""
    if band.unit is not None:
        return Units(unit=band.unit, scale=band.scale, offset=band.offset or 0.0, white=band.white)
    if common is None:
        raise PermafrostError(
            f"band {band.name} has no unit",
            where=where,
            remedy="declare units: {unit: …} for all bands, or a unit for each band",
        )
    return Units(
        unit=common.unit,
        scale=common.scale if band.scale is None else band.scale,
        offset=common.offset if band.offset is None else band.offset,
        white=common.white if band.white is None else band.white,
    )


def decoding_of(entry: DatasetEntry, bands: Sequence[Band]) -> Decoding:
    """Decoding options of an entry."""
    return Decoding(
        len(bands), frozenset(entry.convert), entry.nodata is not None, targets_of(entry.task).dense
    )


#: (name in a file, its place for messages) -> class, None to omit the object
Rename = Callable[[str, str], str | None]
#: key of `label_values` for all other names
ANY_OTHER = "*"


def renamed(label_values: Mapping | None) -> Rename:
    """How names in annotation files become classes, see `options.Renamed`.

    The function that is returned raises `UnreadableImage` for a name without a class.
    """
    if label_values is None:
        return lambda name, which: name
    # YAML keys may be numbers where files have text
    values = {str(key): value for key, value in label_values.items()}

    def rename(name: str, which: str) -> str | None:
        if name in values or ANY_OTHER in values:
            return values[name if name in values else ANY_OTHER]
        raise UnreadableImage(
            f"{which} is a {name[:60]!r}, which label_values does not name",
            remedy=f"name it under label_values in source, or all others with {ANY_OTHER!r}",
        )

    return rename


def class_ids(names: Sequence[str], declared: Sequence[str] | None, *, where: object):
    """Ids for class names: in the order of the entry if it lists them, else alphabetical.

    Returns
    -------
    (list of classes, mapping of name to id).

    Raises
    ------
    PermafrostError : the entry lists a name twice, or lacks one of the data.
    """
    found = sorted(set(names))
    if not declared:
        _check_alike(found, where)
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


def _check_alike(names: Sequence[str], where: object) -> None:
    """Refuse class names that look like typing errors or missing values."""
    alike: dict[str, str] = {}
    for name in names:
        other = alike.setdefault(name.strip().casefold(), name)
        if other != name:
            raise PermafrostError(
                f"the data holds the classes {other!r} and {name!r}, which differ only in spaces or capitals",
                where=where,
                remedy="correct the names, or list all classes in the entry if they are two",
            )
    if "nan" in alike:
        raise PermafrostError(
            f"the data holds the class {alike['nan']!r}, which programs write for a missing label",
            where=where,
            remedy="give these images a label or leave them out, or list all classes in the entry if it is one",
        )


def required_classes(entry: DatasetEntry, *, where: object) -> list[str]:
    """The classes of masks in the order of their ids; raises `PermafrostError` if the entry does not list them."""
    if not entry.classes:
        raise PermafrostError(
            "masks need the list of classes",
            where=where,
            remedy="add classes to the entry, in the order of their ids",
        )
    return list(entry.classes)
