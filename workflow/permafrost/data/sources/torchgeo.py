"""Kind ``torchgeo``: any torchgeo dataset that returns an image and a label, by its class name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError, near_names

from ..bands import Band, normal_name
from ..decode import UnreadableImage, tiff_lonlat
from ..records import SPLITS, Decoded, Record
from .common import declared_bands, require_task


class TorchgeoSource:
    """Samples of a torchgeo dataset class.

    Options: ``name`` (the class); ``arguments`` (of its constructor, such as root, bands, download);
    ``split_arguments`` (our split -> its further arguments; default ``split: train|val|test``);
    ``image_key``, ``label_key`` (default image and label); ``dtype`` (type to store: torchgeo returns
    floats; a value that does not fit is an error).
    """

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
        self._where, self._entry = where, entry
        self.task = require_task(entry, ["classification", "multilabel"], where=where)
        self.bands = declared_bands(entry, where=where)
        self.ignore_index = None
        self._image, self._label = (
            options.get("image_key", "image"),
            options.get("label_key", "label"),
        )
        self._dtype = np.dtype(options["dtype"]) if "dtype" in options else None
        per_split = options.get("split_arguments", {split: {"split": split} for split in SPLITS})
        self._parts = {split: self._build(options, extra) for split, extra in per_split.items()}
        self._index = [(s, i) for s, part in self._parts.items() for i in range(len(part))]
        first = next(iter(self._parts.values()))
        self.classes = self._classes(first, entry.get("classes"))
        self._check_bands(first, options.get("arguments", {}))

    def records(self) -> list[Record]:
        if self.task == "multilabel" or not self._image_folder():
            labels = [self._labels_of(split, i) for split, i in self._index]
        else:
            labels = [int(self._parts[split].imgs[i][1]) for split, i in self._index]
        return [
            Record(sample_id=self._name(split, i), label=label, split=split)
            for (split, i), label in zip(self._index, labels, strict=True)
        ]

    def decode(self, index: int) -> Decoded:
        split, number = self._index[index]
        try:
            image = self._parts[split][number][self._image].numpy()
        # readers of many libraries hide behind a torchgeo dataset
        except Exception as error:
            raise UnreadableImage(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        lon, lat = self.locate(index)
        return Decoded(self._native(image), lon=lon, lat=lat)

    def locate(self, index: int) -> tuple[float | None, float | None]:
        split, number = self._index[index]
        path = self._path(split, number)
        if path is None or not path.lower().endswith((".tif", ".tiff")):
            return None, None
        with open(path, "rb") as stream:
            return tiff_lonlat(stream.read())

    def _build(self, options: dict, extra: dict):
        cls = dataset_class(options["name"], self._where)
        arguments = {**options.get("arguments", {}), **extra}
        known = inspect.signature(cls.__init__).parameters
        unknown = [name for name in arguments if name not in known]
        if unknown:
            offered = [name for name in known if name not in ("self", "transforms")]
            raise PermafrostError(
                f"torchgeo's {options['name']} takes no {', '.join(unknown)};"
                f" {near_names(unknown[0], offered)}",
                where=self._where,
                remedy="correct arguments or split_arguments",
            )
        try:
            return cls(**arguments)
        except Exception as error:
            raise PermafrostError(
                f"torchgeo's {options['name']} cannot be built from {arguments}:"
                f" {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}",
                where=self._where,
                remedy="correct root, or set download: true on a machine with a network",
            ) from error

    def _classes(self, dataset, declared: Sequence[str] | None) -> list[str]:
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
        """The declared order against the dataset's own, where it tells: a swap would go unseen."""
        offered = arguments.get("bands", getattr(dataset, "bands", None))
        if isinstance(offered, str) or offered is None or isinstance(offered, dict):
            return
        own = [normal_name(name) for name in offered]
        if own != [normal_name(band.name) for band in self.bands] and _comparable(own, self.bands):
            raise PermafrostError(
                f"bands are declared as {', '.join(b.name for b in self.bands)}, but torchgeo's"
                f" {type(dataset).__name__} returns {', '.join(map(str, offered))}",
                where=self._where,
                remedy="list bands in the dataset's order",
            )

    def _labels_of(self, split: str, number: int):
        part = self._parts[split]
        # labels without pixels, where the class has a way to them
        for name in ("_load_target", "_load_label"):
            loader = getattr(part, name, None)
            if loader is not None and list(inspect.signature(loader).parameters) == ["index"]:
                return self._as_label(loader(number))
        return self._as_label(part[number][self._label])

    def _as_label(self, value):
        array = np.asarray(value)
        if self.task == "classification":
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

    def _native(self, image: np.ndarray) -> np.ndarray:
        if self._dtype is None or image.dtype == self._dtype:
            return image
        with np.errstate(invalid="ignore"):
            native = image.astype(self._dtype)
        if not np.array_equal(native.astype(image.dtype), image):
            raise UnreadableImage(f"holds values that {self._dtype} cannot (dtype of the entry)")
        return native

    def _image_folder(self) -> bool:
        return all(hasattr(part, "imgs") for part in self._parts.values())

    def _path(self, split: str, number: int) -> str | None:
        part = self._parts[split]
        return str(part.imgs[number][0]) if hasattr(part, "imgs") else None

    def _name(self, split: str, number: int) -> str:
        path = self._path(split, number)
        if path is None:
            return f"{split}/{number:07d}"
        return "/".join(path.split(os.sep)[-2:])


def dataset_class(name: str, where: object):
    """A dataset class of torchgeo by name; unknown ones are an error with near names."""
    import torchgeo.datasets as library

    cls = getattr(library, name, None)
    if not inspect.isclass(cls) or not issubclass(cls, library.NonGeoDataset):
        offered = [
            key
            for key, value in vars(library).items()
            if inspect.isclass(value) and issubclass(value, library.NonGeoDataset)
        ]
        raise PermafrostError(
            f"torchgeo has no dataset of images named {name!r}; {near_names(name, offered)}",
            where=where,
            remedy="use the name of one of torchgeo's NonGeoDataset classes",
        )
    return cls


def _comparable(own: list[str], bands: Sequence[Band]) -> bool:
    """True when the dataset's names are of the same kind as ours, so that a difference means one."""
    ours = {normal_name(band.name) for band in bands}
    return len(own) != len(bands) or bool(ours & set(own))
