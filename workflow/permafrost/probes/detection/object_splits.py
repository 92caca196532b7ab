"""Open and check a feature store with maps and objects for a detection probe; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.leakage import LEAK, sample_columns, worst_leak
from permafrost.data.labels.objects import WINDOW, Objects, objects_of
from permafrost.probes.dense.map_splits import MapSplit
from permafrost.probes.detection.shapes import shape_of
from permafrost.probes.detection.shapes.shape import HeadShape


@dataclass(frozen=True)
class WholeImage:
    """A whole image: its windows and its objects.

    Attributes
    ----------
    rows : (W,) rows of the split with its windows.
    size : height and width in pixels.
    objects : each object once, unclipped, by number.
    leak : the worst leak of its windows, see `core.leakage.LEAKS`.
    """

    name: str
    group: str
    rows: np.ndarray
    size: tuple[int, int]
    objects: Objects
    leak: str | None = None


class ObjectSplit(MapSplit):
    """One split: maps, and the objects in each sample (a window of an image); see `MapSplit`."""

    needs = (
        "the store holds no maps of layers with objects",
        "detection probes need a dataset of objects, such as one with task detection; extract it again",
    )

    def fits(self) -> bool:
        columns = {"objects", *(field.name for field in WINDOW)}
        return (
            super().fits()
            and "detection" in self.attributes
            and columns <= set(self.samples.column_names)
        )

    @property
    def detection(self) -> dict:
        """The detection settings in the dataset's card."""
        return self.attributes["detection"]

    @property
    def shape(self) -> HeadShape:
        """Shape of the objects, which the task decides."""
        return shape_of(self.attributes["task"])

    @cached_property
    def objects(self) -> list[Objects]:
        """The objects that overlap each sample, in pixels of the whole image."""
        found = objects_of(self.samples["objects"])
        for row, objects in enumerate(found):
            self._check(objects, row)
        return found

    def _check(self, objects: Objects, row: int) -> None:
        problem = None
        if not np.isfinite(objects.boxes).all():
            problem = "a corner that is not finite"
        elif ((objects.classes < 0) | (objects.classes >= len(self.classes))).any():
            problem = f"a class that is not one of {len(self.classes)}"
        elif (objects.boxes[:, 2:] < objects.boxes[:, :2]).any():
            problem = "a box whose corners lie the wrong way round"
        if problem:
            raise PermafrostError(
                f"sample {self.samples['sample_id'][row].as_py()!r} has an object with {problem}",
                where=self.path,
                remedy="correct the annotations, then prepare the dataset again",
            )

    @cached_property
    def origins(self) -> np.ndarray:
        """(N, 2) x and y of each sample's upper left corner in its whole image, in pixels."""
        columns = [self.samples[name].to_numpy() for name in ("x_offset", "y_offset")]
        return np.stack(columns, axis=1).astype(np.float64)

    @cached_property
    def scales(self) -> np.ndarray:
        """(N, 2) working pixels per pixel, in x and in y."""
        return np.array(self.working_size[::-1]) / self.sizes[:, ::-1]

    @cached_property
    def images(self) -> list[WholeImage]:
        """The whole images, in the order in which they first appear."""
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(self.samples["image_id"].to_pylist()):
            rows.setdefault(name, []).append(row)
        known = sample_columns(self.samples)
        groups = known["group_id"].to_pylist()
        leaks = known[LEAK].to_pylist() if LEAK in known else [None] * len(groups)
        heights, widths = (
            self.samples[name].to_numpy() for name in ("image_height", "image_width")
        )
        return [
            WholeImage(
                name,
                groups[own[0]],
                np.array(own),
                (int(heights[own[0]]), int(widths[own[0]])),
                _together([self.objects[row] for row in own]),
                worst_leak(leaks[row] for row in own),
            )
            for name, own in rows.items()
        ]

    @property
    def object_count(self) -> int:
        """Number of objects of whole images, without crowds."""
        return sum(int((~image.objects.crowd).sum()) for image in self.images)


def _together(windows: list[Objects]) -> Objects:
    """The objects of all windows of an image, each once."""
    if len(windows) == 1:
        return windows[0]
    every = Objects(  # type: ignore[call-arg]  # unpacks five arrays
        *(
            np.concatenate([getattr(window, name) for window in windows])
            for name in ("numbers", "classes", "boxes", "areas", "crowd")
        ),
        tuple(polygon for window in windows for polygon in window.polygons),
    )
    _, first = np.unique(every.numbers, return_index=True)
    return every.take(first)


def check_objects(train: ObjectSplit) -> None:
    """Refuse a train split without any object."""
    if not train.object_count:
        raise PermafrostError(
            "no train image has an object, so there is nothing to learn from",
            where=train.path,
            remedy="check the annotations and the splits of the dataset's entry",
        )


def missing_classes(train: ObjectSplit) -> list[str]:
    """``class_missing_in_train:ID`` for every class without an object in train; crowds do not count."""
    found = np.concatenate([each.classes[~each.crowd] for each in train.objects])
    missing = sorted(set(range(len(train.classes))) - set(found.tolist()))
    return [f"class_missing_in_train:{class_id}" for class_id in missing]
