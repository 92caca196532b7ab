"""Kind ``torchgeo``: a torchgeo dataset class, by name, that returns an image and its labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from permafrost.core.options import ByName, Different, LeftOut, Text
from permafrost.core.specification import SPLITS
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry, StoredType
from permafrost.data.files.decode import UnreadableImage, readable
from permafrost.data.records import Record, Source
from permafrost.data.sources.annotated import Annotated, ObjectCheck, for_task
from permafrost.data.sources.common import required_classes
from permafrost.data.sources.options import (
    ByModality,
    BySplit,
    Clipped,
    Corners,
    Grouped,
    LabelChannel,
)
from permafrost.data.sources.reading import grouped
from permafrost.data.sources.torchgeo_objects import SampleObjects, check_pairing, without_pixels
from permafrost.data.sources.torchgeo_samples import sample_name, sample_size
from permafrost.data.sources.torchgeo_source import TorchgeoSource

#: a key of a sample, or several
Key = Text | Different[str]


@dataclass(frozen=True, kw_only=True)
class TorchgeoOptions(Grouped, Clipped, LabelChannel):
    """A dataset class of torchgeo."""

    name: str
    """Name of the class in torchgeo.datasets."""
    arguments: dict = field(default_factory=dict)
    """Arguments of the class: root, download, bands, …"""
    split_arguments: BySplit[dict] = field(
        default_factory=lambda: {split: {"split": split} for split in SPLITS}
    )
    """train, val and test -> further arguments for each. If some are missing, use val_from_train or
    another method of splits."""
    image_key: Key | ByModality[Key] = "image"
    """Key of the image in a sample. Several keys are stacked by their bands; with dates: pair or
    series, they are its dates. For an entry with modalities, a mapping of modalities to keys."""
    axes: Literal["TCHW", "(TC)HW"] = "TCHW"
    """Order of dates (T) and bands (C) in an array of several dates; (TC)HW has all bands of one
    date, then those of the next."""
    label_key: LeftOut[str] = None
    """Key of the label in a sample, or of the number (regression). Default is label; mask for
    segmentation and pixel_regression. Detection with one class needs no label."""
    boxes_key: Text = "bbox_xyxy"
    """Key of the boxes (detection)."""
    boxes: Literal["upright", "corners"] = "upright"
    """Boxes in a sample (detection): x_min, y_min, x_max, y_max; or all corners of a rotated box,
    which are kept as its outline while its bounding box is used."""
    masks_key: Text = "mask"
    """Key of the masks of the objects, one (H, W) for each (instance_segmentation). Not used for boxes given as
    corners, whose outlines are the masks."""
    corners: Corners = "edges"
    """Meaning of the coordinates of upright boxes (detection), see corners of voc."""
    label_values: LeftOut[ByName[str]] = None
    """Mapping of label numbers to classes (detection), if they are not positions in the list of classes, from 0."""
    dtype: LeftOut[StoredType | ByName[StoredType]] = None
    """Data type to store, for all images or by modality; torchgeo returns floats. A value that does
    not fit is an error."""


def open_torchgeo(entry: DatasetEntry, *, where: object) -> Source:
    """Open the source that the task needs: samples with boxes, or with a label or mask."""
    kind = TorchgeoDetection if targets_of(entry.task).objects else TorchgeoSource
    return kind(entry, where=where)


class TorchgeoDetection(TorchgeoSource):
    """Samples of a torchgeo dataset class for object detection.

    Objects are listed before any pixel is requested. For classes known to support it, the images
    are not decoded for that; for others, they are decoded twice.
    """

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        options: TorchgeoOptions = entry.source
        for part in self._parts.values():
            check_pairing(part, where)
        masks = targets_of(entry.task).instances
        self._objects = SampleObjects(options, self.classes, masks=masks, where=where)
        self._records = self._listed(options, where)

    def records(self) -> list[Record]:
        return self._records

    def _listed(self, options: TorchgeoOptions, where: object) -> list[Record]:
        names = [sample_name(self._parts[split], split, i) for split, i in self._index]
        groups = grouped(names, options.group, where=where)
        check = ObjectCheck.of(self._entry, clip=options.clip_boxes)
        ids = {name: number for number, name in enumerate(self.classes)}
        quick = {split: without_pixels(part) for split, part in self._parts.items()}
        images = []
        for name, (split, number) in zip(names, self._index, strict=True):
            try:
                images.append(self._annotated(name, split, number, quick[split]))
            except UnreadableImage as failure:
                images.append(check.unreadable(name, failure))
        records = [
            check.record(Record(name, None, split, group), image, ids)
            for name, group, (split, _), image in zip(
                names, groups, self._index, for_task(images, self.task, where=where), strict=True
            )
        ]
        check.refuse(where)
        return records

    def _annotated(self, name: str, split: str, number: int, quick) -> Annotated:
        with readable():
            sample = (self._parts[split] if quick is None else quick)[number]
        if quick is None:
            size = self._images(sample)[0].shape[-2:]
        else:
            size = sample_size(self._parts[split], number)
        return Annotated(name, self._objects(sample, name), tuple(size), split)

    def _classes(self, dataset, declared: Sequence[str] | None) -> list[str]:
        if self._entry.source.label_values is not None:
            # labels are translated by name, so the dataset's own class order is irrelevant
            return required_classes(self._entry, where=self._where)
        return super()._classes(dataset, declared)
