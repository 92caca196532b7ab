"""Choose the test images that the report shows (random, worst and best), and encode their pictures."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
from PIL import Image

from permafrost.core.identity import derive_seed

EXTREMES = 2
# longest side of a shown raster in pixels
LONGEST = 512


class Ranked:
    """The images to show, updated while the test set is processed.

    `pictures` of `count` images are drawn at random with a seed from the dataset's name, so that all probes
    show the same ones. The two worst and the two best rated of the others are added. Zero `pictures`
    shows none.
    """

    def __init__(self, count: int, pictures: int, dataset: str) -> None:
        rng = np.random.default_rng(derive_seed("pictures", dataset))
        self.drawn = {int(row) for row in rng.permutation(count)[:pictures]}
        self._active = pictures > 0
        # (rank, row), the first ones are shown; enough of the best, since some may also be among the worst
        self._worst: list[tuple[float, int]] = []
        self._best: list[tuple[float, int]] = []

    def offer(self, row: int, rating: float) -> None:
        """Consider an image, unless it is drawn anyway; a higher rating is better."""
        if self._active and row not in self.drawn:
            self._worst = sorted([*self._worst, (rating, row)])[:EXTREMES]
            self._best = sorted([*self._best, (-rating, row)])[: 2 * EXTREMES]

    @property
    def wanted(self) -> set[int]:
        """Rows that may be shown, given the images offered so far."""
        return self.drawn | {row for _, row in self._worst + self._best}

    def labels(self) -> dict[int, str]:
        """Row to ``drawn``, ``worst`` or ``best``, in the order of rows."""
        labels = dict.fromkeys(self.drawn, "drawn")
        labels |= {row: "worst" for _, row in self._worst}
        best = [row for _, row in self._best if row not in labels]
        labels |= dict.fromkeys(best[:EXTREMES], "best")
        return {row: labels[row] for row in sorted(labels)}


class Shown:
    """Collects the pictures of the images that `Ranked` chooses, while the test set is processed.

    Parameters
    ----------
    encode : converts a picture to bytes.
    """

    def __init__(
        self, count: int, pictures: int, dataset: str, encode: Callable[[np.ndarray], bytes]
    ) -> None:
        self._ranked, self._encode = Ranked(count, pictures, dataset), encode
        self._encoded: dict[int, bytes] = {}

    def offer(self, row: int, rating: float | None, picture: np.ndarray) -> None:
        """Add an image with its rating (higher is better, None if nothing is scored) and picture."""
        if rating is not None:
            self._ranked.offer(row, rating)
        wanted = self._ranked.wanted
        if row in wanted:
            self._encoded[row] = self._encode(picture)
        for other in self._encoded.keys() - wanted:
            del self._encoded[other]

    def columns(self, count: int) -> tuple[list[str | None], list[bytes | None]]:
        """For every row ``drawn``, ``worst``, ``best`` or None; and its picture, or None if it is not shown."""
        labels = self._ranked.labels()
        shown = [row if row in labels and row in self._encoded else None for row in range(count)]
        return (
            [None if row is None else labels[row] for row in shown],
            [None if row is None else self._encoded[row] for row in shown],
        )


def encode_mask(mask: np.ndarray) -> bytes:
    """(h, w) class ids as a PNG of one channel with 8 bits, or 16 if needed."""
    buffer = io.BytesIO()
    kind = np.uint8 if mask.size == 0 or mask.max() < 256 else np.uint16
    Image.fromarray(np.ascontiguousarray(mask, dtype=kind)).save(buffer, format="PNG")
    return buffer.getvalue()


def encode_raster(raster: np.ndarray) -> bytes:
    """(h, w) numbers, `thinned`, as npy of float32."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(thinned(raster), np.float32), allow_pickle=False)
    return buffer.getvalue()


def thinned(raster: np.ndarray) -> np.ndarray:
    """Every n-th pixel of a raster, so that no side exceeds `LONGEST`."""
    step = max(1, math.ceil(max(raster.shape) / LONGEST))
    return raster[::step, ::step]
