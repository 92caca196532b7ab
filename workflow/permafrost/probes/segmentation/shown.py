"""Which test images are shown in the report: some drawn at random, the worst and the best."""

from __future__ import annotations

import io

import numpy as np

from permafrost.core.identity import derive_seed

EXTREMES = 2


class Shown:
    """Collects the predicted masks of the images to show while a test set goes by.

    `pictures` images are drawn at random by the dataset's name alone, so that every probe shows the
    same; besides them the two worst and the two best by pixel accuracy, of those with a scored pixel.
    Zero `pictures` shows none at all.
    """

    def __init__(self, count: int, pictures: int, dataset: str) -> None:
        rng = np.random.default_rng(derive_seed("pictures", dataset))
        self._drawn = {int(row) for row in rng.permutation(count)[:pictures]}
        self._masks: dict[int, np.ndarray] = {}
        self._active = pictures > 0
        # (rank, row), the first ones shown; as many best as could also be among the worst
        self._worst: list[tuple[float, int]] = []
        self._best: list[tuple[float, int]] = []

    def offer(self, row: int, confusion: np.ndarray, mask: np.ndarray) -> None:
        """One image: its row, its (K, K) confusion matrix and its (h, w) predicted class ids."""
        if not self._active:
            return
        if row in self._drawn:
            self._masks[row] = np.array(mask)
            return
        scored = confusion.sum()
        if not scored:
            return
        accuracy = float(np.trace(confusion) / scored)
        self._worst = sorted([*self._worst, (accuracy, row)])[:EXTREMES]
        self._best = sorted([*self._best, (-accuracy, row)])[: 2 * EXTREMES]
        wanted = {row for _, row in self._worst + self._best}
        if row in wanted:
            self._masks[row] = np.array(mask)
        for other in self._masks.keys() - wanted - self._drawn:
            del self._masks[other]

    def chosen(self) -> dict[int, tuple[str, bytes]]:
        """Row to (``drawn``, ``worst`` or ``best``; PNG of its mask)."""
        labels = dict.fromkeys(self._drawn & self._masks.keys(), "drawn")
        labels |= {row: "worst" for _, row in self._worst}
        best = [row for _, row in self._best if row not in labels]
        labels |= dict.fromkeys(best[:EXTREMES], "best")
        return {row: (labels[row], encode_png(self._masks[row])) for row in sorted(labels)}


def encode_png(mask: np.ndarray) -> bytes:
    """(h, w) class ids as a PNG of one channel, of 8 bits where they fit, else of 16."""
    from PIL import Image

    buffer = io.BytesIO()
    kind = np.uint8 if mask.size == 0 or mask.max() < 256 else np.uint16
    Image.fromarray(np.ascontiguousarray(mask, dtype=kind)).save(buffer, format="PNG")
    return buffer.getvalue()
