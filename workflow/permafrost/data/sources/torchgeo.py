"""Kind ``torchgeo``: a torchgeo dataset that returns an image and its labels, by class name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage, readable
from permafrost.data.records import Record, Source
from permafrost.data.sources.annotated import Annotated, ObjectCheck
from permafrost.data.sources.common import required_classes
from permafrost.data.sources.reading import grouped
from permafrost.data.sources.torchgeo_objects import SampleObjects, check_pairing, without_pixels
from permafrost.data.sources.torchgeo_samples import sample_name, sample_size
from permafrost.data.sources.torchgeo_source import TorchgeoSource


@dataclass(frozen=True, kw_only=True)
class TorchgeoOptions:
    """Options of a dataset class of torchgeo.

    Attributes
    ----------
    name : of the class.
    arguments : of its constructor, such as root, bands, download.
    split_arguments : our split -> its further arguments.
    image_key : of a sample; or several keys, and by modality, see `torchgeo_images`.
    axes : of an image of several dates: ``TCHW``, or ``(TC)HW``, all bands of a date and then of the next.
    label_key, boxes_key : of a sample.
    label_channel : of masks that have several, the one that is meant, from 0.
    boxes : ``upright`` (x_min, y_min, x_max, y_max), or ``corners``: all corners of rotated boxes, kept as outlines,
        whose upright boxes count.
    corners : what the numbers of upright boxes mean, see `corners`.
    label_values : number -> class.
    clip_boxes : cut boxes at the edge of their image.
    group : regular expression whose group in parentheses is the sample's group, found in its name.
    dtype : to store, of all images or by modality, since torchgeo returns floats; a value that does not fit is an
        error.
    """

    name: str
    arguments: dict
    split_arguments: dict[str, dict]
    image_key: str | list[str] | dict[str, str | list[str]]
    axes: str
    boxes_key: str
    boxes: str
    corners: str
    clip_boxes: bool
    label_key: str | None = None
    label_channel: int | None = None
    label_values: dict | None = None
    group: str | None = None
    dtype: str | dict[str, str] | None = None


def open_torchgeo(entry: DatasetEntry, *, where: object) -> Source:
    """Samples with boxes, or with a label or mask, as the task asks for."""
    kind = TorchgeoDetection if targets_of(entry.task).objects else TorchgeoSource
    return kind(entry, where=where)


class TorchgeoDetection(TorchgeoSource):
    """Samples of a torchgeo dataset class for the detection of objects.

    The objects are listed before any pixel is asked for. Of classes that are known to make them
    without the pixels, the images are not decoded for that; of others they are, twice in all.
    """

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        options: TorchgeoOptions = entry.source
        for part in self._parts.values():
            check_pairing(part, where)
        self._objects = SampleObjects(options, self.classes, where=where)
        self._records = self._listed(options, where)

    def records(self) -> list[Record]:
        return self._records

    def _listed(self, options: TorchgeoOptions, where: object) -> list[Record]:
        names = [sample_name(self._parts[split], split, i) for split, i in self._index]
        groups = grouped(names, options.group, where=where)
        check = ObjectCheck(
            points=False, clip=options.clip_boxes, skip=self._entry.on_error is not None
        )
        ids = {name: number for number, name in enumerate(self.classes)}
        quick = {split: without_pixels(part) for split, part in self._parts.items()}
        records = []
        for name, group, (split, number) in zip(names, groups, self._index, strict=True):
            try:
                image = self._annotated(name, split, number, quick[split])
            except UnreadableImage as failure:
                image = check.unreadable(name, failure)
            records.append(check.record(Record(name, None, split, group), image, ids))
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
            # numbers are translated, so that the dataset's own order of classes has no say
            return required_classes(self._entry, where=self._where)
        return super()._classes(dataset, declared)
