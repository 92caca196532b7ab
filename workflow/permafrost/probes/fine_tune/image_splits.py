"""Open an image store for training: images, targets and the record of the backbone; no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.targets import Targets
from permafrost.core.tasks import targets_of
from permafrost.probes.dense.map_splits import MaskSplit
from permafrost.probes.job import ImageProbeJob


class ImageSplit(MaskSplit):
    """One split: images, and labels, numbers or masks.

    Parameters
    ----------
    path : the image store.
    about : data on backbone and dataset, as in a feature store's attributes.
    expect : fingerprint in the plan; other stores are refused.
    """

    needs = ("the store holds no images", "prepare the dataset again")

    def __init__(self, path: Path, about: dict, *, expect: str | None = None) -> None:
        super().__init__(path, expect=expect, split=about.get("split"))
        self.attributes = {**self.attributes, **about}
        self.labels = None if self.masked else self.store.read("labels")

    def fits(self) -> bool:
        return "images" in self.store

    @property
    def masked(self) -> bool:
        """Whether targets are masks."""
        return "masks" in self.store

    @property
    def task(self) -> str:
        return self.attributes["task"]

    @property
    def targets(self) -> Targets:
        return targets_of(self.task)


def open_images(job: ImageProbeJob, about: dict, *, resized: bool) -> dict[str, ImageSplit]:
    """All splits.

    Parameters
    ----------
    about : data on backbone and dataset, as in a feature store's attributes.
    resized : all images are resized to one size for the model.

    Raises
    ------
    PermafrostError : no test sample, inputs of more than one size, or targets that are not finite.
    """
    splits = {
        name: ImageSplit(path, {**about, "split": name}, expect=job.images)
        for name, path in job.stores.items()
    }
    if not len(splits["test"]):
        raise PermafrostError(
            "the test split is empty", where=job.stores["test"], remedy="split the dataset again"
        )
    sizes = sorted({tuple(size) for split in splits.values() for size in split.sizes.tolist()})
    if not resized and len(sizes) > 1:
        shown = ", ".join(f"{height} x {width}" for height, width in sizes[:6])
        raise PermafrostError(
            f"images keep their native size, and there are {len(sizes)} sizes ({shown}"
            f"{', …' if len(sizes) > 6 else ''}); the images of a batch have one",
            where=job.where,
            remedy="set input.size of the backbone, or extraction.size",
        )
    for name, split in splits.items():
        if split.targets.numbers and not np.isfinite(split.labels).all():
            raise PermafrostError(
                f"targets of {name} hold NaN or infinity",
                where=job.where,
                remedy="correct the dataset",
            )
    return splits
