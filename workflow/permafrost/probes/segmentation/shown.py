"""The predicted masks of the test images that are shown in the report."""

from __future__ import annotations

import io

import numpy as np

from permafrost.probes.dense.shown import Ranked


class Shown:
    """Collects the masks of the images to show while a test set goes by.

    Which they are says `Ranked`; images are rated by pixel accuracy, those with a scored pixel.
    """

    def __init__(self, count: int, pictures: int, dataset: str) -> None:
        self._ranked = Ranked(count, pictures, dataset)
        self._masks: dict[int, np.ndarray] = {}

    def offer(self, row: int, confusion: np.ndarray, mask: np.ndarray) -> None:
        """One image: its row, its (K, K) confusion matrix and its (h, w) predicted class ids."""
        scored = confusion.sum()
        if scored:
            self._ranked.offer(row, float(np.trace(confusion) / scored))
        wanted = self._ranked.wanted
        if row in wanted:
            self._masks[row] = np.array(mask)
        for other in self._masks.keys() - wanted:
            del self._masks[other]

    def chosen(self) -> dict[int, tuple[str, bytes]]:
        """Row to (``drawn``, ``worst`` or ``best``; PNG of its mask)."""
        labels = self._ranked.labels()
        return {
            row: (label, encode_png(self._masks[row]))
            for row, label in labels.items()
            if row in self._masks
        }


def encode_png(mask: np.ndarray) -> bytes:
    """(h, w) class ids as a PNG of one channel, of 8 bits where they fit, else of 16."""
    from PIL import Image

    buffer = io.BytesIO()
    kind = np.uint8 if mask.size == 0 or mask.max() < 256 else np.uint16
    Image.fromarray(np.ascontiguousarray(mask, dtype=kind)).save(buffer, format="PNG")
    return buffer.getvalue()
