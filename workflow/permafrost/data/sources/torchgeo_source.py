"""Samples of a torchgeo dataset with an image and a label or mask."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.tasks import targets_of
from permafrost.data.bands.selection import normal_name
from permafrost.data.entry import DatasetEntry
from permafrost.data.files.decode import UnreadableImage, readable
from permafrost.data.files.georeference import NOWHERE
from permafrost.data.labels.masks import MaskCoding
from permafrost.data.records import Decoded, Record
from permafrost.data.sources.common import (
    ListedSource,
    pixel_coding,
    required_classes,
)
from permafrost.data.sources.reading import coded, grouped
from permafrost.data.sources.torchgeo_images import SampleImages, sample_point
from permafrost.data.sources.torchgeo_samples import (
    arguments_of,
    check_arguments,
    dataset_class,
    sample_name,
    sample_order,
    sample_place,
)

if TYPE_CHECKING:
    from permafrost.data.sources.torchgeo import TorchgeoOptions

#: classes whose list of classes is not in the order of the mask values
NOT_IN_ORDER = frozenset({"LoveDA", "XView2", "xBD"})


class TorchgeoSource(ListedSource):
    """Samples of a torchgeo dataset class."""

    def __init__(self, entry: DatasetEntry, *, where: object) -> None:
        super().__init__(entry, where=where)
        options: TorchgeoOptions = entry.source
        self._images = SampleImages(entry, self.bands, where=where)
        self._masked = targets_of(entry.task).pixels
        self._channel = options.label_channel
        self._label = options.label_key or ("mask" if self._masked else "label")
        self._parts = {
            split: self._build(options, extra) for split, extra in options.split_arguments.items()
        }
        self._index = [(s, i) for s, part in self._parts.items() for i in sample_order(part, s)]
        first = next(iter(self._parts.values()))
        self.classes = self._classes(first, entry.classes)
        self._check_bands(first, options.arguments)
        if self._masked:
            self._coding = self._pixel_coding()
            self._check_masks()

    def records(self) -> list[Record]:
        names = [sample_name(self._parts[split], split, i) for split, i in self._index]
        groups = grouped(names, self._entry.source.group, where=self._where)
        return [
            Record(sample_id=name, label=label, split=split, group_id=group)
            for name, label, group, (split, _) in zip(
                names, self._labels(), groups, self._index, strict=True
            )
        ]

    def _labels(self) -> list:
        if self._masked:
            return [None] * len(self._index)
        if not targets_of(self.task).one_class or not self._image_folder():
            return [self._labels_of(split, i) for split, i in self._index]
        return [int(self._parts[split].imgs[i][1]) for split, i in self._index]

    def decode(self, index: int) -> Decoded:
        split, number = self._index[index]
        sample = self._sample(split, number)
        arrays = self._images(sample)
        dates = self._images.dates(self._parts[split], number, sample, arrays)
        place = sample_place(self._parts[split], number)
        if place is not NOWHERE and place.size != arrays[0].shape[-2:]:
            # resizing makes the file's transform invalid
            place = replace(place, crs=None, transform=None)
        image, *further = self._images.stored(arrays)
        decoded = Decoded(
            image, further=tuple(further), dates=dates, place=sample_point(sample, place)
        )
        if not self._masked:
            return decoded
        return replace(decoded, **{self._coding.field: self._mask(sample)})

    def locate(self, index: int) -> tuple[float | None, float | None]:
        split, number = self._index[index]
        place = sample_place(self._parts[split], number)
        if place.lon is None:
            place = sample_point(self._sample(split, number), place)
        return place.lon, place.lat

    def _sample(self, split: str, number: int) -> dict:
        with readable():
            return self._parts[split][number]

    def _build(self, options: TorchgeoOptions, extra: dict):
        cls = dataset_class(options.name, self._where)
        # some classes modify their list arguments
        arguments = copy.deepcopy({**options.arguments, **extra})
        check_arguments(options.name, arguments, arguments_of(cls), where=self._where)
        try:
            return cls(**arguments)
        except Exception as error:
            raise PermafrostError(
                f"torchgeo's {options.name} cannot be built from {arguments}:"
                f" {first_line(error, named=True)}",
                where=self._where,
                remedy="correct root, or set download: true on a machine with a network",
            ) from error

    def _mask(self, sample: dict) -> np.ndarray:
        if self._label not in sample:
            raise UnreadableImage(f"has no {self._label!r}, only {', '.join(sample)}")
        mask = np.asarray(sample[self._label])
        channel = self._channel or 0
        if mask.ndim == 3 and channel < len(mask) and (len(mask) == 1 or self._channel is not None):
            mask = mask[channel]
        if mask.ndim != 2:
            raise UnreadableImage(
                f"its {self._coding.noun} has shape {mask.shape}, not (height, width)",
                remedy="say with label_channel which channel of a mask is meant, where it has several",
            )
        return coded(self._coding, mask)

    def _pixel_coding(self):
        name = self._entry.source.name
        if name in NOT_IN_ORDER and self._entry.mask_values is None:
            raise PermafrostError(
                f"the masks of torchgeo's {name} do not number the classes in the order of its list",
                where=self._where,
                remedy="set mask_values: the class of each number, as in the catalogue's entry",
            )
        coding = pixel_coding(self._entry, self.classes, where=self._where)
        if isinstance(coding, MaskCoding) and coding.colours:
            raise PermafrostError(
                "torchgeo turns the colours of masks into numbers, but mask_values names colours",
                where=self._where,
                remedy="name the numbers that the class returns, or read the files with kind: folder",
            )
        return coding

    def _check_masks(self) -> None:
        """Check the first sample of each split for a mask before decoding all of it."""
        for split, part in self._parts.items():
            try:
                keys = list(part[0]) if len(part) else [self._label]
            # a damaged sample is reported later, together with all others
            except Exception:
                continue
            if self._label not in keys:
                raise PermafrostError(
                    f"torchgeo's {type(part).__name__} returns no {self._label!r} for {split},"
                    f" only {', '.join(keys)}",
                    where=self._where,
                    remedy="list the splits that have masks under split_arguments (with"
                    " val_from_train where one is missing), or correct label_key",
                )

    def _classes(self, dataset, declared: Sequence[str] | None) -> list[str]:
        if targets_of(self.task).numbers:
            return []
        if targets_of(self.task).masks and self._entry.mask_values is not None:
            # masks are translated by name, so the dataset's own class order is irrelevant
            return required_classes(self._entry, where=self._where)
        sets = getattr(dataset, "class_sets", None)
        offered = getattr(dataset, "classes", None)
        if offered is None and isinstance(sets, dict):
            offered = sets.get(getattr(dataset, "num_classes", None))
        if offered is None:
            if declared:
                return list(declared)
            raise PermafrostError(
                f"torchgeo's {type(dataset).__name__} names no classes",
                where=self._where,
                remedy="list classes in the entry, in the order of its label numbers",
            )
        offered = [str(name) for name in offered]
        if declared and list(declared) != offered:
            raise PermafrostError(
                f"classes differs from the dataset's own list: {', '.join(offered)}",
                where=self._where,
                remedy="remove classes from the entry; label numbers follow the dataset's list",
            )
        return offered

    def _check_bands(self, dataset, arguments: dict) -> None:
        """Compare the declared band order with the dataset's own, if it has one: a swap would go unnoticed."""
        if self._entry.modalities is not None:
            return
        offered = arguments.get("bands", getattr(dataset, "bands", None))
        if isinstance(offered, str) or offered is None or isinstance(offered, dict):
            return
        own = [normal_name(name) for name in offered]
        ours = [normal_name(band.name) for band in self.bands]
        if len(own) == len(ours):
            # unrelated names say nothing about the order
            differing = own != ours and bool(set(ours) & set(own))
            returned = ", ".join(map(str, offered))
        else:
            # some classes list polarisations or groups of bands with several channels each
            channels = self._channels(dataset)
            differing = channels is None or channels != len(ours)
            returned = f"{', '.join(map(str, offered))}" + (
                "" if channels is None else f", in {channels} channels"
            )
        if differing:
            raise PermafrostError(
                f"bands are declared as {', '.join(b.name for b in self.bands)}, but torchgeo's"
                f" {type(dataset).__name__} returns {returned}",
                where=self._where,
                remedy="list bands in the dataset's order, one for each channel",
            )

    def _channels(self, dataset) -> int | None:
        """Number of channels of the first sample; None if it cannot be read or is not an image."""
        try:
            (image,) = self._images(dataset[0])
        # a damaged sample is reported later, together with all others
        except Exception:
            return None
        return image.shape[-3] if image.ndim in (3, 4) else None

    def _labels_of(self, split: str, number: int):
        part = self._parts[split]
        # labels without pixels, if the class has a method for them
        for name in ("_load_target", "_load_label"):
            loader = getattr(part, name, None)
            if loader is not None and list(inspect.signature(loader).parameters) == ["index"]:
                return self._as_label(loader(number))
        try:
            sample = part[number]
        # torchgeo datasets use many readers, which fail in many ways
        except Exception as error:
            raise PermafrostError(
                f"the sample {sample_name(part, split, number)} cannot be read for its label"
                f" ({type(error).__name__}: {first_line(error)})",
                where=self._where,
                remedy="get the file again, or correct root",
            ) from error
        if self._label not in sample:
            raise PermafrostError(
                f"samples have no {self._label!r}, only {', '.join(map(str, sample))}",
                where=self._where,
                remedy="correct label_key",
            )
        return self._as_label(sample[self._label])

    def _as_label(self, value):
        array = np.asarray(value)
        targets = targets_of(self.task)
        if targets.numbers:
            if array.size != 1 or array.dtype.kind not in "fiu":
                raise PermafrostError(
                    f"targets have type {array.dtype} and shape {array.shape}, not one number",
                    where=self._where,
                    remedy="name the key of the number with label_key, or correct the task",
                )
            return float(array.item())
        if targets.one_class:
            if array.size != 1:
                raise PermafrostError(
                    f"labels have shape {array.shape}, not one class id",
                    where=self._where,
                    remedy="use task: multilabel",
                )
            return int(array.item())
        if array.shape != (len(self.classes),) or not np.isin(array, (0, 1)).all():
            raise PermafrostError(
                f"labels have shape {array.shape}, not one 0 or 1 for each of the"
                f" {len(self.classes)} classes",
                where=self._where,
                remedy="use task: classification, or correct classes",
            )
        return tuple(int(flag) for flag in array)

    def _image_folder(self) -> bool:
        return all(hasattr(part, "imgs") for part in self._parts.values())
