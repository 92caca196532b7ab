"""Patches of one layer or more as rows of features, image by image, streamed from the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.probes.dense.interpolate import bilinear_matrix
from permafrost.probes.dense.map_splits import Layer, MapSplit, TargetSplit, nearest_stride
from permafrost.probes.dense.patch_targets import patch_means

# features that are held at a time
VALUES = 1 << 25


@dataclass(frozen=True)
class Patches:
    """Where patches come from: layers, and the grid that all of their maps are brought to.

    Maps that are coarser than the grid are enlarged bilinearly, of finer ones means are taken.
    """

    layers: list[Layer]
    grid: tuple[int, int]

    @classmethod
    def of(
        cls, split: MapSplit, names: list[str] | None, stride: float, *, where: object
    ) -> Patches:
        """Layers of these names (None: all), on the grid of that with patches closest to `stride` pixels."""
        layers = split.choose_layers(names, where=where)
        return cls(layers, nearest_stride(split, layers, stride).size)

    @property
    def width(self) -> int:
        return sum(layer.channels for layer in self.layers)

    def images(self, split: MapSplit) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, (n, gh * gw, width) float32), some images at a time, in store order.

        Raises
        ------
        PermafrostError : a feature is NaN or infinite; names layer and sample.
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
        """Of every image with data: features (p, width), targets (p,) and weights (p,) of its patches with data.

        A patch weighs as much as the share of its pixels that have data.
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
    """(target, source) float32: bilinear weights, or where there are fewer places shares of what each covers."""
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
