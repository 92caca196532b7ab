"""Samples of a torchgeo dataset that hold an image and boxes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import first_line
from permafrost.data.decode import UnreadableImage
from permafrost.data.records import Record
from permafrost.data.sources.annotated import Annotated, ObjectCheck
from permafrost.data.sources.common import required_classes
from permafrost.data.sources.reading import grouped
from permafrost.data.sources.torchgeo_objects import SampleObjects, check_pairing, without_pixels
from permafrost.data.sources.torchgeo_samples import sample_name, sample_size
from permafrost.data.sources.torchgeo_source import TorchgeoSource


class TorchgeoDetection(TorchgeoSource):
    """Samples of a torchgeo dataset class for the detection of objects.

    Options: those of `TorchgeoSource` but for the labels, which are read by
    `permafrost.data.sources.torchgeo_objects.SampleObjects`; ``clip_boxes``.

    The objects are listed before any pixel is asked for. Of classes that are known to make them
    without the pixels, the images are not decoded for that; of others they are, twice in all.
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        super().__init__(entry, where=where)
        options = entry["source"]
        for part in self._parts.values():
            check_pairing(part, where)
        self._objects = SampleObjects(options, self.classes, where=where)
        self._records = self._listed(options, where)

    def records(self) -> list[Record]:
        return self._records

    def _listed(self, options: dict, where: object) -> list[Record]:
        names = [sample_name(self._parts[split], split, i) for split, i in self._index]
        groups = grouped(names, options.get("group"), where=where)
        check = ObjectCheck(points=False, clip=options.get("clip_boxes", False))
        ids = {name: number for number, name in enumerate(self.classes)}
        quick = {split: without_pixels(part) for split, part in self._parts.items()}
        records = []
        for name, group, (split, number) in zip(names, groups, self._index, strict=True):
            try:
                image = self._annotated(name, split, number, quick[split])
            except UnreadableImage as failure:
                check.problems.append(f"{name}: {failure}")
                continue
            objects, clipped = check.objects(image, image.size, ids)
            records.append(
                Record(
                    sample_id=name,
                    split=split,
                    group_id=group,
                    objects=objects,
                    image_size=image.size,
                    clipped=clipped,
                )
            )
        check.refuse(where)
        return records

    def _annotated(self, name: str, split: str, number: int, quick) -> Annotated:
        part = self._parts[split] if quick is None else quick
        try:
            sample = part[number]
        # readers of many libraries hide behind a torchgeo dataset
        except Exception as error:
            raise UnreadableImage(first_line(error, named=True)) from error
        if quick is None:
            size = np.asarray(sample[self._image]).shape[-2:]
        else:
            size = sample_size(self._parts[split], number)
        return Annotated(name, self._objects(sample, name), tuple(size), split)

    def _classes(self, dataset, declared: Sequence[str] | None) -> list[str]:
        if "label_values" in self._entry["source"]:
            # numbers are translated, so that the dataset's own order of classes has no say
            return required_classes(self._entry, where=self._where)
        return super()._classes(dataset, declared)
