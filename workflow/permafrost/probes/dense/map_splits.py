"""Open and check feature stores with maps, and masks or numbers per pixel, for a probe; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.store_readers import open_store
from permafrost.features.dates import OverDates, date_counts, positions_of, reduction_of
from permafrost.features.kept_layers import closest_to
from permafrost.probes.dense.interpolate import resize_mask
from permafrost.probes.job import ProbeJob


@dataclass(frozen=True)
class Layer:
    """The map of one layer: its name, its array in the store, and its shape (C, H, W)."""

    name: str
    array: str
    channels: int
    height: int
    width: int

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the map."""
        return self.height, self.width


class MapSplit:
    """One split: maps, samples and, for tasks with a target per pixel, the targets.

    Parameters
    ----------
    path : the feature store.
    expect, split : fingerprint in the plan, and name of the split; other stores are refused.
    over : how maps of several dates are combined into those of a sample.
    """

    # message and remedy if the store lacks what the probe needs
    needs: ClassVar[tuple[str, str]] = (
        "the store holds no maps of layers",
        "this probe needs a dataset with maps; extract it again",
    )

    # the store's array of targets per pixel
    truth_array: ClassVar[str]

    def __init__(
        self,
        path: Path,
        *,
        expect: str | None = None,
        split: str | None = None,
        over: OverDates | None = None,
    ) -> None:
        self.store = open_store(path, expect=expect, split=split)
        self.attributes: dict = self.store.attributes
        self.over = reduction_of(over, self.attributes, where=path)
        self.samples: pa.Table = self.store.samples()
        self._dates = date_counts(self.samples, self.attributes)
        if not self.fits():
            problem, remedy = self.needs
            raise PermafrostError(problem, where=path, remedy=remedy)

    def fits(self) -> bool:
        """Whether the store has what the probe needs."""
        return "layers" in self.attributes

    def __len__(self) -> int:
        return len(self.store)

    @property
    def path(self) -> Path:
        return self.store.path

    @property
    def classes(self) -> list[str]:
        """Names of the dataset's classes."""
        return self.attributes["classes"]

    @property
    def working_size(self) -> tuple[int, int]:
        """Height and width of the backbone's input in pixels."""
        height, width = self.attributes["working_size"]
        return int(height), int(width)

    @cached_property
    def layers(self) -> list[Layer]:
        """All layers of the store, coarse to fine."""
        keys = ("name", "array", "channels", "height", "width")
        layers = [Layer(*(entry[key] for key in keys)) for entry in self.attributes["layers"]]
        if self.over is None:
            return layers
        most = self.most_dates
        return [replace(one, channels=self.over.channels(one.channels, most)) for one in layers]

    @property
    def most_dates(self) -> int:
        """Largest number of dates of a sample."""
        return self.store.shape(self.attributes["layers"][0]["array"])[1]

    def maps(self, layer: Layer, start: int, stop: int) -> np.ndarray:
        """(n, C, H, W) of samples [start, stop), in the stored type; (n, T, C, H, W) if all dates are kept."""
        maps = self.store.read(layer.array, start, stop)
        return maps if self.over is None else self.over(maps, self._dates[start:stop], first=start)

    @cached_property
    def sizes(self) -> np.ndarray:
        """(N, 2) true height and width of every sample in pixels; the rest is padding."""
        columns = [self.samples[name].to_numpy() for name in ("height", "width")]
        return np.stack(columns, axis=1).astype(np.int64)

    def truths(self, start: int, stop: int, resolution: str = "native") -> list[np.ndarray]:
        """Targets of the pixels of rows [start, stop), (h, w) each.

        At their true size, or resized by nearest for ``resolution: working``.
        """
        stored = self.store.read(self.truth_array, start, stop)
        native = [
            truth[:height, :width]
            for truth, (height, width) in zip(stored, self.sizes[start:stop], strict=True)
        ]
        if resolution == "native":
            return native
        return [resize_mask(truth, self.working_size) for truth in native]

    def scored_sizes(self, resolution: str) -> np.ndarray:
        """(N, 2) height and width in pixels at which every image is scored."""
        if resolution == "native":
            return self.sizes
        return np.broadcast_to(np.array(self.working_size), self.sizes.shape)

    def choose_layers(self, names: list[str] | None, *, where: object) -> list[Layer]:
        """The layers with these names, in their order; all for None."""
        every = self._every_layer
        known = {layer.name: layer for layer in every}
        problem, remedy = "there is no map of layer", "name layers that were extracted"
        chosen = [look_up(known, name, problem, where=where, remedy=remedy) for name in names or ()]
        return self._stored(every if names is None else chosen)

    def closest_layer(self, stride: float) -> Layer:
        """The layer whose patches are closest to `stride` working pixels; ties go to the first."""
        return self._stored([nearest_stride(self, self._every_layer, stride)])[0]

    @property
    def _every_layer(self) -> list[Layer]:
        """Also those without maps, as no probe of the extraction's plan read them; coarse to fine."""
        others = [Layer(**one) for one in self.attributes.get("left_out", ())]
        return sorted([*self.layers, *others], key=lambda layer: int(layer.array[len("map") :]))

    def _stored(self, layers: list[Layer]) -> list[Layer]:
        lacking = [one.name for one in layers if one.array not in self.attributes["arrays"]]
        if lacking:
            raise PermafrostError(
                f"the store has no maps of {', '.join(lacking)}: no probe of its plan read them (runtime.keep_maps)",
                where=self.path,
                remedy="run `snakemake`, which extracts them for the probes of this plan",
            )
        return layers


def nearest_stride(split: MapSplit, layers: list[Layer], stride: float) -> Layer:
    """The layer whose patches are closest to `stride` working pixels; ties go to the first."""
    return layers[closest_to(stride, [one.height for one in layers], split.working_size[0])]


def open_splits[Split: MapSplit](kind: type[Split], job: ProbeJob) -> dict[str, Split]:
    """Open the feature stores of a job; refuses damaged ones and those of another plan."""
    return {
        name: kind(path, expect=job.features, split=name, over=job.over_dates)
        for name, path in job.stores.items()
    }


def date_positions(splits: Mapping[str, MapSplit]) -> tuple[dict[str, np.ndarray], dict]:
    """Positions (N, T) of the dates of each split, and their record; both empty if dates are not kept."""
    over = splits["train"].over
    if over is None or over.ltae is None:
        return {}, {}
    stored = {
        name: (split.samples, split.attributes, split.most_dates) for name, split in splits.items()
    }
    positions, meaning = positions_of(stored)
    return positions, {"positions": meaning}


MASKS = "masks"
ROWS_AT_A_TIME = 64


class MaskSplit(MapSplit):
    """One split: maps, masks, samples; see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with masks",
        "segmentation probes need a dataset with task segmentation; extract it again",
    )
    truth_array = MASKS

    def fits(self) -> bool:
        return super().fits() and MASKS in self.store

    @property
    def ignore_index(self) -> int | None:
        """Mask value of ignored pixels; None: no pixel is ignored."""
        return self.attributes.get("ignore_index")

    @property
    def dead_classes(self) -> list[int]:
        """Ids of classes that take part in no mean."""
        return list(self.attributes.get("dead_classes") or [])

    @property
    def mask_dtype(self) -> np.dtype:
        """Type of the stored masks."""
        return np.dtype(self.attributes["arrays"][MASKS][1])

    @property
    def answer_dtype(self) -> np.dtype:
        """Type of the predicted masks."""
        return np.dtype(np.uint8 if len(self.classes) <= 256 else np.uint16)

    def working_masks(self, start: int, stop: int) -> np.ndarray:
        """(n, *working size) masks, resized by nearest if their images were resized."""
        stored = self.store.read(MASKS, start, stop)
        sizes, target = self.sizes[start:stop], self.working_size
        if (sizes == target).all():
            return np.ascontiguousarray(stored[:, : target[0], : target[1]])
        out = np.empty((stop - start, *target), stored.dtype)
        for mask, (height, width), row in zip(stored, sizes, out, strict=True):
            row[:] = resize_mask(mask[:height, :width], target)
        return out

    def pixel_counts(self) -> np.ndarray:
        """(K,) number of pixels of each class in the split, at native resolution.

        Raises
        ------
        PermafrostError : a mask value that is neither a class nor the ignore value.
        """
        classes, counts = len(self.classes), np.zeros(len(self.classes), np.int64)
        for start in range(0, len(self), ROWS_AT_A_TIME):
            stop = min(start + ROWS_AT_A_TIME, len(self))
            for row, mask in enumerate(self.truths(start, stop), start):
                counts += self._count(mask, row, classes)
        return counts

    def _count(self, mask: np.ndarray, row: int, classes: int) -> np.ndarray:
        if mask.dtype in (np.uint8, np.uint16):
            found = np.bincount(mask.reshape(-1))
            values = np.flatnonzero(found)
            found = found[values]
        else:
            values, found = np.unique(mask, return_counts=True)
        scored = values != self.ignore_index  # all pixels if the index is None
        foreign = values[scored & ((values < 0) | (values >= classes))]
        if len(foreign):
            raise PermafrostError(
                f"the mask of sample {self.samples['sample_id'][row].as_py()!r} holds"
                f" {foreign[:5].tolist()}, neither a class below {classes} nor the ignore value"
                f" {self.ignore_index}",
                where=self.path,
                remedy="declare the value as ignore_index or as a class in the dataset's entry,"
                " then prepare the dataset again",
            )
        out = np.zeros(classes, np.int64)
        out[values[scored].astype(np.int64)] = found[scored]
        return out


def mask_gates(splits: Mapping[str, MaskSplit]) -> list[str]:
    """``class_missing_in_train:ID`` for every class without a pixel in train, except dead ones.

    Raises
    ------
    PermafrostError : a mask of any split has an unknown value; or all pixels of train are ignored.
    """
    counts = {name: split.pixel_counts() for name, split in splits.items()}
    train = splits["train"]
    if not counts["train"].any():
        raise PermafrostError(
            "every pixel of every train mask is ignored, so there is nothing to learn from",
            where=train.path,
            remedy="check ignore_index and the class values in the dataset's entry",
        )
    missing = set(np.flatnonzero(counts["train"] == 0).tolist()) - {*train.dead_classes}
    # an ignored class is not missing
    missing.discard(train.ignore_index)
    return [f"class_missing_in_train:{class_id}" for class_id in sorted(missing)]


TASK = "pixel_regression"
TARGETS = "targets"


class TargetSplit(MapSplit):
    """One split: maps, targets, samples; see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with numbers per pixel",
        "this probe needs a dataset with task pixel_regression; extract it again",
    )
    truth_array = TARGETS
    answer_dtype = np.dtype(np.float32)

    def fits(self) -> bool:
        return super().fits() and TARGETS in self.store

    @property
    def centre(self) -> float:
        """A number close to all targets."""
        return float(self.attributes["target_centre"])

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest target of the dataset."""
        low, high = self.attributes["target_range"]
        return float(low), float(high)
