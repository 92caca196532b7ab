"""Count pairs of classes block by block, without a list of the classes in advance.

First convert pixel values to class codes: class rasters, logits of all classes, one logit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.raster.blocks import Block


def as_codes(values: np.ndarray, valid: np.ndarray, where: str) -> np.ndarray:
    """(h, w) class codes as int64; a float raster must hold whole numbers.

    Raises
    ------
    PermafrostError : NaN or a fraction in a valid pixel.
    """
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    used = np.where(valid, values, 0)
    wrong = ~np.isfinite(used) | (used != np.trunc(used))
    if wrong.any():
        raise PermafrostError(
            f"the value {used[wrong][0]} is not a class code",
            where=where,
            remedy="declare it as nodata in the file, or give scores as --logits",
        )
    return used.astype(np.int64)


def logits_to_classes(
    logits: np.ndarray, valid: np.ndarray, where: str, *, threshold: float = 0.5
) -> np.ndarray:
    """(h, w) class positions from 0.

    Parameters
    ----------
    logits : (K, h, w). With several bands, the class of the largest logit, ties to the first; with
        one band, class 1 if ``sigmoid(logit) > threshold``, else class 0.
    valid : (h, w) bool; the result is meaningless elsewhere.

    Raises
    ------
    PermafrostError : NaN in a valid pixel; a threshold outside (0, 1).
    """
    if not 0 < threshold < 1:
        raise PermafrostError(
            f"the threshold {threshold} is not a probability", remedy="give one between 0 and 1"
        )
    if np.isnan(logits[:, valid]).any():
        raise PermafrostError(
            "a logit is NaN",
            where=where,
            remedy="declare NaN as nodata in the file if these pixels were not predicted",
        )
    if len(logits) > 1:
        return np.argmax(logits, axis=0)
    with np.errstate(over="ignore"):
        probability = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
    return (probability > threshold).astype(np.int64)


# codes below this are counted in a table of all pairs, faster than by sorting
_SMALL = 256
MISSING = ("error", "ignore")

# more codes suggest measurements instead of classes; their confusion matrix would fill the memory
MOST_CLASSES = 2000


class PairCounts:
    """Pixel counts by (reference code, predicted code), per block and in total.

    Parameters
    ----------
    ignore : reference codes to exclude; their pixels are counted as ignored.
    missing : if the reference has a class and the prediction no data: ``error``, or ``ignore``
        (such pixels are counted as unpredicted).
    first_code : the code of the first class, 0 or 1; position 0 of the logits has this code.
    scores : whether predictions are scores; `threshold` as in `logits_to_classes`.
    """

    def __init__(
        self,
        *,
        ignore: Iterable[int] = (),
        missing: str = "error",
        first_code: int = 0,
        scores: bool = False,
        threshold: float = 0.5,
    ) -> None:
        self.ignore = np.asarray(sorted(set(ignore)), np.int64)
        self.missing, self.first_code = missing, first_code
        self.scores, self.threshold = scores, threshold
        self.blocks: list[dict[tuple[int, int], int]] = []
        self.mapped: dict[int, int] = {}
        # per pair of codes, the sum of the pixels' areas and the sum of their squares
        self.areas: dict[tuple[int, int], np.ndarray] = {}
        self.mapped_areas: dict[int, float] = {}
        self.weighted: bool | None = None
        self.codes: set[int] = set()
        self.pixels = self.ignored = self.unpredicted = 0
        self.bands: int | None = None

    def add(self, block: Block) -> None:
        """Count one block.

        Raises
        ------
        PermafrostError : codes below the first class, missing predictions with ``error``, NaN.
        """
        reference = as_codes(block.reference, block.reference_valid, block.where(0))
        predicted = self._classes(block)
        labelled = block.reference_valid & ~np.isin(reference, self.ignore)
        counted = labelled & block.prediction_valid
        unpredicted = int(np.count_nonzero(labelled)) - int(np.count_nonzero(counted))
        if unpredicted and self.missing == "error":
            raise PermafrostError(
                f"{unpredicted} pixels have a reference but no prediction",
                where=block.where(1),
                remedy="predict them, or leave them out with missing: ignore"
                " (--missing-prediction ignore), which counts them",
            )
        self._check(reference[labelled], block.where(0))
        self._check(predicted[block.prediction_valid], block.where(1))
        for place, codes in enumerate((reference[labelled], predicted[block.prediction_valid])):
            self.codes.update(np.unique(codes).tolist())
            if len(self.codes) > MOST_CLASSES:
                raise PermafrostError(
                    f"there are more than {MOST_CLASSES} different codes",
                    where=block.where(place),
                    remedy="give rasters of classes; not of measurements",
                )
        self.pixels += reference.size
        self.ignored += reference.size - int(np.count_nonzero(labelled))
        self.unpredicted += unpredicted
        for code, count in _unique(predicted[block.prediction_valid]):
            self.mapped[code] = self.mapped.get(code, 0) + count
        self._weigh(block, reference, predicted, counted)
        if counted.any():
            self.blocks.append(_pairs(reference[counted], predicted[counted]))

    def _weigh(self, block: Block, reference, predicted, counted: np.ndarray) -> None:
        """Add the pixels' areas, if the block has any."""
        if self.weighted not in (None, block.areas is not None):
            raise PermafrostError(
                "some blocks have areas of pixels and others have none",
                where=block.place,
                remedy="give them with all blocks, or with none",
            )
        self.weighted = block.areas is not None
        if block.areas is None:
            return
        areas = np.broadcast_to(block.areas, counted.shape)
        for code, area, _ in _sums(
            predicted[block.prediction_valid], areas[block.prediction_valid]
        ):
            self.mapped_areas[code] = self.mapped_areas.get(code, 0.0) + area
        own, found = reference[counted], predicted[counted]
        width = int(found.max(initial=0)) + 1
        for pair, *sums in _sums(own * width + found, areas[counted]):
            key = divmod(pair, width)
            self.areas[key] = self.areas.get(key, np.zeros(2)) + sums

    def _classes(self, block: Block) -> np.ndarray:
        where, valid = block.where(1), block.prediction_valid
        if not self.scores:
            return as_codes(block.prediction, valid, where)
        if block.prediction.ndim != 3 or self.bands not in (None, len(block.prediction)):
            raise PermafrostError(
                f"scores of the shape {block.prediction.shape} are not (classes, height, width)",
                where=where,
            )
        self.bands = len(block.prediction)
        found = logits_to_classes(block.prediction, valid, where, threshold=self.threshold)
        return found + self.first_code

    def _check(self, codes: np.ndarray, where: str) -> None:
        if codes.size and codes.min() < self.first_code:
            raise PermafrostError(
                f"there is the code {int(codes.min())}, below the first class ({self.first_code})",
                where=where,
                remedy="name it with ignore (--ignore), or count classes from another first code"
                " (--one-based)",
            )


def _pairs(reference: np.ndarray, predicted: np.ndarray) -> dict[tuple[int, int], int]:
    if max(reference.max(), predicted.max()) < _SMALL:
        table = np.bincount(reference * _SMALL + predicted)
        cells = np.flatnonzero(table)
        counts = table[cells]
        first, second = cells // _SMALL, cells % _SMALL
    else:
        both, counts = np.unique(np.stack([reference, predicted]), axis=1, return_counts=True)
        first, second = both
    return dict(
        zip(zip(first.tolist(), second.tolist(), strict=True), counts.tolist(), strict=True)
    )


def _sums(codes: np.ndarray, areas: np.ndarray) -> list[tuple[int, float, float]]:
    """Each code with the sum of its pixels' areas and the sum of their squares."""
    if codes.max(initial=0) < _SMALL**2:
        values = np.flatnonzero(np.bincount(codes))
        places, wanted = codes, values
    else:
        values, places = np.unique(codes, return_inverse=True)
        wanted = slice(None)
    sums = (np.bincount(places, weights)[wanted] for weights in (areas, areas**2))
    return list(zip(values.tolist(), *(column.tolist() for column in sums), strict=True))


def _unique(codes: np.ndarray) -> list[tuple[int, int]]:
    values, counts = np.unique(codes, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
