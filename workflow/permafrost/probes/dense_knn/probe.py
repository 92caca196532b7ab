"""Dense nearest neighbours: predict pixels from the nearest train patches; no training, no torch.

A train patch has the majority class of its pixels, or the mean of their numbers. The vote shares of the k train
patches nearest to a test patch are resized to the scored size, and the class with the largest share is predicted.
For numbers, the mean of the neighbours is resized.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Positive
from permafrost.core.progress import progress
from permafrost.metrics.segmentation.confusion import confusion_matrix
from permafrost.probes.dense.choice import STRIDE, Kept, OfMasks
from permafrost.probes.dense.interpolate import resize_bilinear
from permafrost.probes.dense.map_splits import (
    TASK,
    Layer,
    MapSplit,
    MaskSplit,
    TargetSplit,
    mask_gates,
    open_splits,
)
from permafrost.probes.dense.patch_targets import NO_LABEL, patch_labels, patch_means
from permafrost.probes.dense.tables import MaskRows, Outcome, TargetRows, rows_to_fill
from permafrost.probes.job import ProbeJob
from permafrost.probes.knn.search import NeighbourSearch, vote
from permafrost.probes.options import Metric


@dataclass(frozen=True, kw_only=True)
class OfPatches(OfMasks, Kept):
    """Which patches of the training images are known."""

    layer: str | None = None
    """Layer whose map gives the patches; null uses the one with patches closest to 16 pixels."""
    metric: Metric = "l2"
    """Distance between patches."""
    max_patches: Positive = 200_000
    """Largest number of train patches; if there are more, this many are drawn at random."""


@dataclass(frozen=True, kw_only=True)
class DenseKnnOptions(OfPatches):
    """Nearest neighbours of patches; a train patch has the majority class of its pixels, or the mean of their
    numbers.
    """

    k: Positive = 5
    """Number of neighbours."""


def run_dense_knn(job: ProbeJob[DenseKnnOptions]) -> None:
    """Search the train patches for every test patch and write the test predictions.

    Validation is not used; the search runs on the job's device.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    known = MapSplit(job.stores["train"], expect=job.features, split="train", over=job.over_dates)
    answers: type[Any] = PatchNumbers if known.attributes["task"] == TASK else PatchClasses
    splits, options = open_splits(answers.split, job), job.options
    train, test = splits["train"], splits["test"]
    layer = choose_layer(train, options.layer, job.where)
    gates = answers.gates(splits)
    features, values, available = train_patches(
        answers, train, layer, options.max_patches, job.derived_seed
    )
    if len(values) < options.k:
        raise PermafrostError(
            f"k = {options.k} neighbours of {len(values)} {answers.called}",
            where=job.where,
            remedy="choose a smaller k, or a layer with a larger map",
        )
    settings = {
        "k": options.k,
        "metric": options.metric,
        "layers": [layer.name],
        "working_size": list(train.working_size),
        "patches": len(values),
        "patches_available": available,
    }
    device = resolve_device(job.device, "faiss")
    with rows_to_fill(answers.rows, job, test) as rows:
        for start, found in nearest(features, test, layer, options, device, job.where):
            answers.add(rows, start, found, values, layer)
        rows.write(job, splits, Outcome([layer], settings, gates))


class PatchClasses:
    """Patches with classes; neighbours vote."""

    split, rows = MaskSplit, MaskRows
    called, dtype = "labelled train patches", np.int64

    @staticmethod
    def gates(splits: dict[str, MaskSplit]) -> list[str]:
        """Warnings about classes; raises as `mask_gates`."""
        return mask_gates(splits)

    @staticmethod
    def of_patches(train: MaskSplit, mask: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
        """(gh, gw) class ids of the patches of a mask (h, w)."""
        return patch_labels(mask, grid, len(train.classes), train.ignore_index)

    @staticmethod
    def known(labels: np.ndarray) -> np.ndarray:
        """Whether patches have a class."""
        return labels != NO_LABEL

    @staticmethod
    def add(
        rows: MaskRows, start: int, found: np.ndarray, labels: np.ndarray, layer: Layer
    ) -> None:
        """Add predictions of images from row `start` on, from (n, k) neighbours `found` of their patches."""
        classes = len(rows.test.classes)
        shares, _ = vote(found, labels, n_classes=classes, task="classification")
        PatchClasses.add_scores(rows, start, shares, layer)

    @staticmethod
    def add_scores(rows: MaskRows, start: int, scores: np.ndarray, layer: Layer) -> None:
        """Add predictions of images from row `start` on, from (n, K) scores of the classes of their patches."""
        test = rows.test
        classes = len(test.classes)
        shares = scores.reshape(-1, layer.height, layer.width, classes).transpose(0, 3, 1, 2)
        kind = np.uint8 if classes <= 256 else np.int32
        truths = rows.truths(start, start + len(shares))
        for row, (truth, share) in enumerate(zip(truths, shares, strict=True), start):
            prediction = resize_bilinear(share, rows.size(row)).argmax(axis=0).astype(kind)
            rows.add(
                truth, prediction, confusion_matrix(truth, prediction, classes, test.ignore_index)
            )


class PatchNumbers:
    """Patches with numbers; the prediction is the neighbours' mean."""

    split, rows = TargetSplit, TargetRows
    called, dtype = "train patches with data", np.float64

    @staticmethod
    def gates(splits: dict[str, TargetSplit]) -> list[str]:
        """Warnings: none."""
        return []

    @staticmethod
    def of_patches(train: TargetSplit, target: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
        """(gh, gw) means of the patches of a raster (h, w)."""
        return patch_means(target, grid)[0]

    @staticmethod
    def known(means: np.ndarray) -> np.ndarray:
        """Whether patches have data."""
        return ~np.isnan(means)

    @staticmethod
    def add(
        rows: TargetRows, start: int, found: np.ndarray, means: np.ndarray, layer: Layer
    ) -> None:
        """Add predictions of images from row `start` on, from (n, k) neighbours `found` of their patches."""
        rows.add(start, means[found].mean(axis=1).reshape(-1, *layer.size))


def train_patches(
    answers: type[PatchClasses] | type[PatchNumbers],
    train: MapSplit,
    layer: Layer,
    most: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Features (n, C) float32 and targets (n,) of at most `most` patches with a target, and the number of all.

    If there are more, they are drawn at random, and keep the order of the split.
    """
    values = np.empty((len(train), *layer.size), answers.dtype)
    step = max(1, train.store.chunk_rows(train.truth_array))
    for start in range(0, len(train), step):
        for row, truth in enumerate(train.truths(start, min(start + step, len(train))), start):
            values[row] = answers.of_patches(cast(Any, train), truth, layer.size)
    values = values.reshape(-1)
    usable = np.flatnonzero(answers.known(values))
    chosen = drawn(usable, most, seed)
    return features_of(train, layer, chosen), values[chosen], len(usable)


# test patches searched at once
QUERIES = 16_384


def choose_layer(split: MapSplit, name: str | None, where: object) -> Layer:
    """The layer of this name; for None the one whose stride is closest to 16, the coarser of equals."""
    if name is not None:
        return split.choose_layers([name], where=where)[0]
    return split.closest_layer(STRIDE)


def drawn(found: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` of the ascending numbers `found`, drawn at random if there are more, ascending."""
    if len(found) <= most:
        return found
    return found[np.sort(np.random.default_rng(seed).choice(len(found), most, replace=False))]


def features_of(split: MapSplit, layer: Layer, patches: np.ndarray) -> np.ndarray:
    """(n, C) float32 features of patches, read chunk by chunk.

    Parameters
    ----------
    patches : (n,) ascending; patch p of image i has the number i * patches per image + p.
    """
    features = np.empty((len(patches), layer.channels), np.float32)
    filled, per_image = 0, layer.height * layer.width
    step = max(1, split.store.chunk_rows(layer.array))
    for start in range(0, len(split), step):
        stop = min(start + step, len(split))
        maps = split.maps(layer, start, stop).transpose(0, 2, 3, 1)
        low, high = np.searchsorted(patches, [start * per_image, stop * per_image])
        part = maps.reshape(-1, layer.channels)[patches[low:high] - start * per_image]
        features[filled : filled + len(part)] = part
        filled += len(part)
    return features


def nearest(
    features: np.ndarray, test: MapSplit, layer: Layer, options, device: str, where: str
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first row, (n, k) indices into `features`) for all patches of the test split, in order.

    Parameters
    ----------
    options : ``k`` and ``metric``.
    """
    search = NeighbourSearch(features, options.k, metric=options.metric, device=device)
    for start, queries in patches_of(test, layer, where):
        yield start, search.find(queries)


def patches_of(test: MapSplit, layer: Layer, where: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield (first image, (n, C) float32 patches) for all patches of the test split, in order."""
    at_once = max(1, QUERIES // (layer.height * layer.width))
    with progress(total=len(test), label=where, unit="image") as bar:
        for start in range(0, len(test), at_once):
            stop = min(start + at_once, len(test))
            maps = test.maps(layer, start, stop).transpose(0, 2, 3, 1)
            yield start, maps.reshape(-1, layer.channels).astype(np.float32)
            bar.update(stop - start)
