"""Patches of a layer's maps: which layer gives them, their features, and their nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from permafrost.core.progress import progress
from permafrost.probes.dense.map_splits import Layer, MapSplit, nearest_stride
from permafrost.probes.knn.search import NeighbourSearch

STRIDE = 16
# test patches that are searched together
QUERIES = 16_384


def choose_layer(split: MapSplit, name: str | None, where: object) -> Layer:
    """The layer of this name; for None that whose stride is closest to 16, the coarser of equals."""
    if name is not None:
        return split.choose_layers([name], where=where)[0]
    return nearest_stride(split, split.layers, STRIDE)


def drawn(found: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` of the ascending numbers `found`, of more a random choice, ascending."""
    if len(found) <= most:
        return found
    return found[np.sort(np.random.default_rng(seed).choice(len(found), most, replace=False))]


def features_of(split: MapSplit, layer: Layer, patches: np.ndarray) -> np.ndarray:
    """(n, C) float32 features of patches, read chunk by chunk.

    Parameters
    ----------
    patches : (n,) ascending; patch p of image i is number i * patches per image + p.
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
    """(first row, (n, k) indices into `features`) of all patches of the test split, in order.

    Parameters
    ----------
    options : ``k`` and ``metric``.
    """
    search = NeighbourSearch(features, options.k, metric=options.metric, device=device)
    at_once = max(1, QUERIES // (layer.height * layer.width))
    with progress(total=len(test), label=where, unit="image") as bar:
        for start in range(0, len(test), at_once):
            stop = min(start + at_once, len(test))
            maps = test.maps(layer, start, stop).transpose(0, 2, 3, 1)
            queries = maps.reshape(-1, layer.channels).astype(np.float32)
            yield start, search.find(queries)
            bar.update(stop - start)
