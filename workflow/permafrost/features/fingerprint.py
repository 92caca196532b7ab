"""What truly reaches a backbone, however its options are named."""

from __future__ import annotations

import numpy as np
import torch

from permafrost.data.image_store import ImageStore
from permafrost.features.prepare import Preparer

IMAGES = 32


class FedImages:
    """Single images of a store as a backbone is fed them, by position.

    The stored chunk read last is kept, so positions are best asked for in rising order.
    """

    def __init__(self, store: ImageStore, prepare: Preparer) -> None:
        self._store, self._prepare = store, prepare
        self._heights, self._widths = store.heights, store.widths
        self._rows = store.store.chunk_rows("images")
        self._chunk: tuple[int, np.ndarray] | None = None

    def __call__(self, position: int) -> torch.Tensor:
        """(C, H, W) float32, on the preparer's device."""
        start = position // self._rows * self._rows
        if self._chunk is None or self._chunk[0] != start:
            stop = min(start + self._rows, len(self._store))
            self._chunk = (start, self._store.store.read("images", start, stop))
        height, width = self._heights[position], self._widths[position]
        pixels = self._chunk[1][position - start][self._prepare.stored, :height, :width]
        return self._prepare(torch.from_numpy(pixels[None]))[0]


def tensor_fingerprint(train: ImageStore, prepare: Preparer) -> dict[str, list[float]]:
    """Mean, std, min and max per channel of the tensor made of the first 32 train images.

    It does not depend on the batch size: every image is prepared by itself.
    """
    fed = FedImages(train, prepare)
    images = [fed(position).cpu().double().numpy() for position in range(min(IMAGES, len(train)))]
    pixels = np.concatenate([image.reshape(len(image), -1) for image in images], axis=1)
    return {
        "mean": pixels.mean(axis=1).tolist(),
        "std": pixels.std(axis=1).tolist(),
        "min": pixels.min(axis=1).tolist(),
        "max": pixels.max(axis=1).tolist(),
    }
