"""Ridge regression of numbers per pixel from the patches of frozen maps, with streaming; no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Above0, Positive
from permafrost.core.progress import progress
from permafrost.probes.dense.choice import Kept, Layers, OfPixels
from permafrost.probes.dense.interpolate import bilinear_matrix
from permafrost.probes.dense.map_splits import (
    Layer,
    MapSplit,
    TargetSplit,
    nearest_stride,
    open_splits,
)
from permafrost.probes.dense.patch_targets import patch_means
from permafrost.probes.dense.tables import Outcome, TargetRows, rows_to_fill
from permafrost.probes.dense_ridge.patch_ridge import Moments, PatchRidge
from permafrost.probes.job import ProbeJob
from permafrost.probes.ridge.alphas import AlphaOptions, ChosenAlpha


@dataclass(frozen=True, kw_only=True)
class DenseRidgeOptions(OfPixels, Kept, AlphaOptions):
    """Ridge regression of the mean number of a patch's pixels, for all alphas from one decomposition. Predictions
    for patches are enlarged bilinearly and scored pixel by pixel.
    """

    layers: Layers = None
    """Layers whose maps are concatenated to features; null uses all of them."""
    stride: Above0 = 16
    """The grid of patches is that of the layer whose patches are closest to this many working pixels. Coarser maps
    are enlarged to it, finer ones are averaged."""
    alpha_max: Above0 = 1e9
    alpha_count: Positive = 49
    choose: Literal["validation", "leave_one_image_out"] = "validation"
    """Alpha is chosen by the error of patches: on validation, or of each training image for the fit without it.
    Images of one scene are similar, and then leaving one out is too optimistic. It solves a system for
    every image and alpha (about half a second per image with 2048 features); validation needs one decomposition."""


def run_dense_ridge(job: ProbeJob[DenseRidgeOptions]) -> None:
    """Choose alpha, fit the mean targets of patches and write the predictions of the test split.

    Alpha is chosen by the mean squared error of patches, weighted by their shares of pixels with
    data: on validation, or with ``choose: leave_one_image_out`` on the patches of each training image for the
    fit without that image; validation then only adds images (``merge_val``). Ties go to the largest alpha.
    Predictions of patches are enlarged bilinearly and scored pixel by pixel.

    The job's device is not used. Splits are streamed from the store: memory holds some images,
    and a few matrices of features × features.

    Raises
    ------
    PermafrostError : anything that the user can fix; no partial output remains.
    """
    splits, options = open_splits(TargetSplit, job), job.options
    test = splits["test"]
    patches = Patches.of(splits["train"], options.layers, options.stride, where=job.where)
    fit, errors = _fit(splits, patches, options, job.where)
    best = ChosenAlpha.of(options, errors, metric="rmse of patches", directions=fit.directions)
    settings = {
        **best.settings,
        "layers": [layer.name for layer in patches.layers],
        "grid": list(patches.grid),
        "working_size": list(test.working_size),
    }
    with rows_to_fill(TargetRows, job, test) as rows:
        with progress(total=len(test), label=job.where, unit="image") as bar:
            for start, features in patches.images(test):
                said = fit.predict(features.reshape(-1, patches.width), best.value)
                rows.add(start, said.reshape(len(features), *patches.grid))
                bar.update(len(features))
        rows.write(job, splits, Outcome(patches.layers, settings, best.gates))


def _fit(
    splits: dict[str, TargetSplit], patches: Patches, options: DenseRidgeOptions, where: str
) -> tuple[PatchRidge, np.ndarray]:
    """The final fit, and (A,) root mean squared errors by which alpha is chosen."""
    train, val, alphas = splits["train"], splits["val"], options.alphas
    moments, images = Moments(patches.width), 0
    joined = [train]
    if options.merge_val and options.choose == "leave_one_image_out":
        joined.append(val)
    for split in joined:
        images += _gather(moments, patches, split)
    if images < 2:
        raise PermafrostError(
            f"a fit needs two images with data, train has {images}",
            where=where,
            remedy="give the dataset a larger train split",
        )
    fit = PatchRidge.of(moments, standardize=options.standardize)
    if options.choose == "leave_one_image_out":
        errors = (
            (fit.left_out(x, y, w, alphas), w)
            for split in joined
            for x, y, w in patches.with_targets(split)
        )
        return fit, _root_mean_square(errors, len(alphas), where)
    errors = ((fit.predict(x, alphas) - y[:, None], w) for x, y, w in patches.with_targets(val))
    scores = _root_mean_square(errors, len(alphas), where)
    if options.merge_val:
        _gather(moments, patches, val)
        fit = PatchRidge.of(moments, standardize=options.standardize)
    return fit, scores


def _gather(moments: Moments, patches: Patches, split: TargetSplit) -> int:
    """Add the patches of a split; returns the number of its images with data."""
    images = 0
    for features, targets, weights in patches.with_targets(split):
        moments.add(features, targets, weights)
        images += 1
    return images


def _root_mean_square(errors, count: int, where: str) -> np.ndarray:
    """(A,) from pairs of errors (p, A) and weights (p,)."""
    squares, total = np.zeros(count), 0.0
    for error, weights in errors:
        squares += weights @ error**2
        total += float(weights.sum())
    if not total:
        raise PermafrostError(
            "alpha is chosen on validation, which has no pixel with data",
            where=f"{where}: choose",
            remedy="use choose: leave_one_image_out, or a dataset with validation",
        )
    return np.sqrt(squares / total)


# number of feature values in memory at once
VALUES = 1 << 25


@dataclass(frozen=True)
class Patches:
    """The source of patches: layers, and the grid to which all their maps are resized.

    Maps coarser than the grid are enlarged bilinearly, finer ones are averaged.
    """

    layers: list[Layer]
    grid: tuple[int, int]

    @classmethod
    def of(
        cls, split: MapSplit, names: list[str] | None, stride: float, *, where: object
    ) -> Patches:
        """Layers of these names (None: all), on the grid of the one with patches closest to `stride` pixels."""
        layers = split.choose_layers(names, where=where)
        return cls(layers, nearest_stride(split, layers, stride).size)

    @property
    def width(self) -> int:
        return sum(layer.channels for layer in self.layers)

    def images(self, split: MapSplit) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (first row, (n, gh * gw, width) float32), some images at a time, in store order.

        Raises
        ------
        PermafrostError : a feature is NaN or infinite; the message names layer and sample.
        """
        per_image = self.grid[0] * self.grid[1] * self.width
        step = max(split.store.chunk_rows(layer.array) for layer in self.layers)
        step = max(1, min(step, VALUES // per_image))
        for start in range(0, len(split), step):
            stop = min(start + step, len(split))
            parts = []
            for layer in self.layers:
                maps = split.maps(layer, start, stop).astype(np.float32, copy=False)
                _check_finite(maps, split, layer, start)
                parts.append(_resized(maps, self.grid).reshape(stop - start, layer.channels, -1))
            joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            yield start, joined.transpose(0, 2, 1)

    def with_targets(
        self, split: TargetSplit
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield features (p, width), targets (p,) and weights (p,) of the patches with data, for each image with data.

        The weight of a patch is the share of its pixels with data.
        """
        for start, features in self.images(split):
            targets = split.truths(start, start + len(features))
            for rows, target in zip(features, targets, strict=True):
                means, shares = (part.reshape(-1) for part in patch_means(target, self.grid))
                known = shares > 0
                if known.any():
                    yield rows[known], means[known], shares[known]


def _resized(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    if maps.shape[-2:] == grid:
        return maps
    rows, columns = (_matrix(*pair) for pair in zip(maps.shape[-2:], grid, strict=True))
    return rows @ (maps @ columns.T)


@lru_cache(maxsize=64)
def _matrix(source: int, target: int) -> np.ndarray:
    """(target, source) float32: bilinear weights to enlarge, or area weights to reduce."""
    if target >= source:
        return bilinear_matrix(source, target).astype(np.float32)
    edges = np.arange(target + 1) * (source / target)
    first = np.maximum(edges[:-1, None], np.arange(source))
    last = np.minimum(edges[1:, None], np.arange(1, source + 1))
    return (np.maximum(last - first, 0) * (target / source)).astype(np.float32)


def _check_finite(maps: np.ndarray, split: MapSplit, layer: Layer, start: int) -> None:
    bad = np.flatnonzero(~np.isfinite(maps).all(axis=(1, 2, 3)))
    if len(bad):
        name = split.samples["sample_id"][start + int(bad[0])].as_py()
        raise PermafrostError(
            f"the map of layer {layer.name} of sample {name!r} holds NaN or infinity",
            where=split.path,
            remedy="check the backbone's weights, its input normalisation and its precision",
        )
