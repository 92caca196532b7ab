"""Kind ``tortilla``: files with many samples of several sensors and dates, as in GEO-Bench V2.

The source options define which parts of a sample are its image, its pair or series of images, or
the images of each modality, and which date to use if there is only one; the card repeats these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import ByName, Different, LeftOut, Natural, Text
from permafrost.core.targets import (
    Boxes,
    ClassMask,
    ManyLabels,
    NumberRaster,
    OneClass,
    Targets,
    by_targets,
)
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.georeference import NOWHERE, Georeference
from permafrost.data.files.tortilla import Item, by_sensor, dates_of, parts_of
from permafrost.data.files.tortilla_parts import Pixels, date_position, part_size, read_sensor
from permafrost.data.labels.rasters import Raster
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.annotated import Annotated, ObjectCheck, for_task
from permafrost.data.sources.common import (
    ListedSource,
    class_ids,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.options import ByModality, Clipped, LabelChannel
from permafrost.data.sources.reading import coded
from permafrost.data.sources.tortilla_objects import objects_of
from permafrost.data.sources.tortilla_rows import all_samples, cell_of, record_of

#: columns of parts to read; parts repeat all columns of their sample
PART_COLUMNS = ("modality", "month", "dates", "stac:time_start")
#: ground truth of a sample -> the option with its location
TRUTH = {
    OneClass: "label",
    ManyLabels: "labels",
    ClassMask: "mask",
    NumberRaster: "target",
    Boxes: "boxes",
}
#: tolerated relative difference between the pixel size of a header and the entry's
_TOLERANCE = 0.1
#: a part of a sample by name or position, or several by name
Parts = Text | Natural | Different[str]


@dataclass(frozen=True, kw_only=True)
class TortillaOptions(Clipped, LabelChannel):
    """Files with many samples, each with images of several sensors and dates, and labels: the
    format of GEO-Bench V2.
    """

    path: str
    """The file, or the folder of the files in files."""
    files: LeftOut[Different[str]] = None
    """Names of the files in the folder that together hold the samples."""
    image: Parts | ByModality[Parts]
    """Part of a sample with the bands of the entry, or several parts on one grid, in this order:
    the name of a part, its modality if there is a part per date, or its position from 0. With
    dates: pair or series, several parts are its dates. For an entry with modalities, a mapping of
    modalities to parts."""
    date: int | Text = "last"
    """With dates: one, which of several dates to use: last, first, a number from 0 (from -1
    backwards), a month (July) or a day ("2018-07-01") as written in the file."""
    missing: Literal["error", "leave_out"] = "error"
    """Handling of samples without such a part or date. The card counts the omitted ones."""
    further_channels: Literal["error", "leave_out"] = "error"
    """Handling of further channels after those in bands."""
    label: LeftOut[Text] = None
    """Column of the class: its name, or its number from 0 (classification)."""
    labels: LeftOut[Text] = None
    """Column of lists of classes (multilabel)."""
    mask: LeftOut[Text | Natural] = None
    """Part (see image) with the class of each pixel (segmentation), or of the objects numbered in boxes (detection)."""
    target: LeftOut[Text] = None
    """Part with a number for each pixel (pixel_regression)."""
    boxes: LeftOut[Text] = None
    """Part with the objects (detection): GeoParquet or JSON of boxes; or, together with mask, a
    raster of object numbers."""
    label_values: LeftOut[ByName[str | None]] = None
    """Mapping of stored object labels to classes; null omits such objects (detection)."""
    empty_label: LeftOut[Text] = None
    """Class of objects without a label (detection). Without it, they are an error."""
    group: LeftOut[Text] = None
    """Column of the scene, tile or location of a sample."""

    @property
    def images(self) -> dict[str | None, list[str | int]]:
        """The parts of each modality; None is the key of the only one."""
        by_name: dict[str | None, Any] = (
            self.image if isinstance(self.image, dict) else {None: self.image}
        )
        return {
            name: parts if isinstance(parts, list) else [parts] for name, parts in by_name.items()
        }

    @property
    def parts(self) -> list[str | int]:
        """The parts of all modalities."""
        return [part for parts in self.images.values() for part in parts]


def check_entry(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` without the label option of the task, or with that of another task."""
    options: TortillaOptions = entry.source
    named, wanted = list(options.images), list(entry.modalities or {None: None})
    if set(named) != set(wanted):
        one = "a part, or several that share a grid"
        raise PermafrostError(
            f"image in source names {_modalities(named)}, the entry has {_modalities(wanted)}",
            where=where,
            remedy=f"give under image {one}, for each of the modalities"
            if entry.modalities
            else f"give {one}",
        )
    needed = by_targets(TRUTH, targets_of(entry.task))
    if getattr(options, needed) is None:
        raise PermafrostError(
            f"the task {entry.task} needs {needed} in source",
            where=where,
            remedy=f"name the part or column with {needed}",
        )
    # the mask holds the class of objects that a raster numbers
    helps = {"mask"} if needed == "boxes" else set()
    idle = [
        key
        for key in TRUTH.values()
        if key not in {needed, *helps} and getattr(options, key) is not None
    ]
    if idle:
        raise PermafrostError(
            f"{' and '.join(idle)} in source {'have' if len(idle) > 1 else 'has'} no meaning for"
            f" {entry.task}",
            where=where,
            remedy="remove it, or correct the task",
        )


class TortillaSource(ListedSource):
    """Samples of tortilla files with their labels; see `TortillaOptions`."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        self._options: TortillaOptions = entry.source
        options = self._options
        # for each modality, in the order of the entry
        self._bands = Counter(band.modality for band in self.bands)
        samples = all_samples(options.path, options.files, where=where)
        self._samples, self.left_out = self._usable(samples)
        targets = targets_of(self.task)
        self.classes, labels = self._labels(targets)
        self._coding = pixel_coding(entry, self.classes, where=where)
        self._records = [
            record_of(sample, label, options.group, where)
            for sample, label in zip(self._samples, labels, strict=True)
        ]
        if targets.objects:
            self._records = self._with_objects()

    @property
    def choice(self) -> dict:
        """Which parts of a sample are its image and its labels, for the card."""
        options = self._options
        labels = {
            key: str(name) for key in TRUTH.values() if (name := getattr(options, key)) is not None
        }
        return {
            "parts": [str(part) for part in options.parts],
            **({"date": options.date} if self._entry.dates == "one" else {}),
            "left_out": self.left_out,
            "labels": labels,
        }

    def decode(self, index: int) -> Decoded:
        parts = by_sensor(parts_of(self._samples[index], PART_COLUMNS))
        first, *further = (self._image(parts, modality) for modality in self._bands)
        decoded = Decoded(
            first.values,
            place=self._trusted(first.place),
            further=tuple(one.values for one in further),
            dates=() if self._entry.dates == "one" else (first.dates, *(i.dates for i in further)),
        )
        if self._coding is None:
            return decoded
        return replace(decoded, **{self._coding.field: self._truth(parts)})

    def locate(self, index: int) -> tuple[float | None, float | None]:
        parts = by_sensor(parts_of(self._samples[index], PART_COLUMNS))
        place = self._trusted(self._pixels(parts, self._reference, self._date).place)
        return place.lon, place.lat

    @property
    def _reference(self) -> str | int:
        """The part that defines the pixels of masks and objects: that of the first modality."""
        return self._options.images[next(iter(self._bands))][0]

    def _usable(self, samples: list[Item]) -> tuple[list[Item], int]:
        """The samples with all requested parts and dates, and the number of omitted ones."""
        if self._options.missing != "leave_out":
            return samples, 0
        usable = [sample for sample in samples if self._has_image(sample)]
        return usable, len(samples) - len(usable)

    def _has_image(self, sample: Item) -> bool:
        try:
            parts = by_sensor(parts_of(sample, PART_COLUMNS))
        except UnreadableImage:
            # damage is reported when the sample itself is read
            return True
        try:
            for sensor in self._options.parts:
                dates = dates_of(_of(parts, sensor))
                if self._date is not None:
                    date_position(dates, len(dates), self._date)
        except UnreadableImage:
            return False
        return True

    def _labels(self, targets: Targets) -> tuple[list[str], list]:
        options, declared = self._options, self._entry.classes
        empty = [None] * len(self._samples)
        if targets.numbers:
            return [], empty
        if targets.stored is None:
            return required_classes(self._entry, where=self._where), empty
        if targets.one_class:
            names = [self._class_name(sample, options.label, declared) for sample in self._samples]
            classes, ids = class_ids(names, declared, where=self._where)
            return classes, [ids[name] for name in names]
        lists = [cell_of(sample, options.labels, self._where) or [] for sample in self._samples]
        classes, ids = class_ids([n for names in lists for n in names], declared, where=self._where)
        present = [{ids[name] for name in names} for names in lists]
        return classes, [tuple(int(c in found) for c in range(len(classes))) for found in present]

    def _class_name(self, sample: Item, column: str, declared: Sequence[str] | None) -> str:
        value = cell_of(sample, column, self._where)
        if isinstance(value, int) and declared and 0 <= value < len(declared):
            return declared[value]
        if isinstance(value, str) and value:
            return value
        raise PermafrostError(
            f"{sample.name} has {value!r} in {column}, neither the name nor the number of a class",
            where=self._where,
            remedy="correct label, or list classes in the order of their numbers",
        )

    def _with_objects(self) -> list[Record]:
        options = self._options
        check = ObjectCheck.of(self._entry, clip=options.clip_boxes)
        ids = {name: number for number, name in enumerate(self.classes)}
        images = []
        for sample in self._samples:
            try:
                parts = by_sensor(parts_of(sample, PART_COLUMNS))
                size = part_size(_of(parts, self._reference)[-1])
                found = objects_of(parts, options, self.classes, sample.name)
                images.append(Annotated(sample.name, found, size))
            except UnreadableImage as failure:
                images.append(check.unreadable(sample.name, failure))
        records = [
            check.record(record, image, ids)
            for record, image in zip(
                self._records, for_task(images, self.task, where=self._where), strict=True
            )
        ]
        check.refuse(self._where)
        return records

    def _image(self, parts: dict[str, list[Item]], modality: str | None) -> Pixels:
        """The image of a modality (C, H, W), or its series (T, C, H, W)."""
        names = self._options.images[modality]
        images = [self._pixels(parts, name, self._date) for name in names]
        sizes = [image.values.shape[-2:] for image in images]
        if len(set(sizes)) > 1:
            shown = ", ".join(
                f"{name} {width} x {height}"
                for name, (height, width) in zip(names, sizes, strict=True)
            )
            raise UnreadableImage(
                f"its parts do not lie on one grid: {shown} pixels (width x height)"
            )
        # parts of one date are stacked by bands; otherwise by dates
        axis = 1 if self._entry.dates == "one" else 0
        values = np.concatenate([one.values for one in images], axis=axis)
        values = self._with_bands(values, self._bands[modality])
        dates = tuple(date for one in images for date in one.dates)
        return replace(images[0], values=values[0] if axis else values, dates=dates)

    @property
    def _date(self) -> str | int | None:
        """The date to read; None for all."""
        return self._options.date if self._entry.dates == "one" else None

    def _pixels(
        self, parts: dict[str, list[Item]], sensor: str | int, date: str | int | None
    ) -> Pixels:
        pixels = read_sensor(_of(parts, sensor), date)
        marked = pixels.nodata
        if marked is not None and self._entry.nodata is None and (pixels.values == marked).any():
            raise UnreadableImage(
                f"its part {sensor} marks {marked:g} as nodata and holds it",
                remedy=f"say what nodata is: nodata: {{value: {marked:.17g}, fill: 0}}, or nodata: keep",
            )
        return pixels

    def _with_bands(self, values: np.ndarray, count: int) -> np.ndarray:
        """(T, C, H, W) with the declared number of bands."""
        channels = values.shape[1]
        if channels > count and self._options.further_channels == "leave_out":
            return values[:, :count]
        if channels != count:
            raise UnreadableImage(f"has {channels} bands, the entry declares {count}")
        return values

    def _truth(self, parts: dict[str, list[Item]]) -> np.ndarray:
        """(H, W) class ids or numbers."""
        coding = self._coding
        name = self._options.mask if coding.field == "mask" else self._options.target
        pixels = read_sensor(_of(parts, name))
        channel, (dates, channels) = self._options.label_channel, pixels.values.shape[:2]
        if dates > 1 or (channels > 1 and channel is None) or (channel or 0) >= channels:
            raise UnreadableImage(
                f"its {coding.noun} has {dates} dates and {channels} channels",
                remedy="say with label_channel which channel is meant",
            )
        values = pixels.values[0, channel or 0]
        mask = coding.field == "mask"
        return coded(coding, values if mask else Raster(values, pixels.nodata))

    def _trusted(self, place: Georeference) -> Georeference:
        """The georeference of a header; empty if its pixel size differs from the entry's, because
        it then describes another grid."""
        gsd = self._entry.gsd_m
        if gsd is None or place.transform is None or place.crs is None:
            return place
        height = abs(place.transform[4]) * _metres(place.crs)
        return place if abs(height / gsd - 1) <= _TOLERANCE else NOWHERE


def _modalities(names: list[str | None]) -> str:
    return ", ".join(name for name in names if name) or "no modalities"


def _of(parts: dict[str, list[Item]], name: str | int) -> list[Item]:
    if isinstance(name, int) and name < len(parts):
        return list(parts.values())[name]
    if name not in parts:
        raise UnreadableImage(
            f"has no part {name!r}, only {', '.join(parts)}",
            remedy="correct the name of the part, or set missing: leave_out in source",
        )
    return parts[name]


def _metres(crs: str) -> float:
    """Metres per unit of a coordinate system; for degrees, along a meridian."""
    from rasterio.crs import CRS

    return 111_320.0 if CRS.from_user_input(crs).is_geographic else 1.0
