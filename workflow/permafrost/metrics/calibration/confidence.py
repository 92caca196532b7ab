"""Confidence, correctness and bin of each test item, from which calibration is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.row_file import RowFile, row_blocks
from permafrost.core.tasks import TASKS, targets_of

BINS = 15
# libraries whose bins can be reproduced
LIKE = ("torchmetrics",)
# float32 probabilities of a thousand classes add up to 1 within this
_SUM_TOLERANCE = 1e-3
_REMEDY = "calibration needs a probe that gives probabilities: leave the measure out for others"


@dataclass(frozen=True)
class Confidence:
    """Sufficient statistics of N test items; one entry per item, or per item and label.

    Attributes
    ----------
    confidence : (N, E) probability of the predicted class (E = 1) or of each label (E = L), in the scores' dtype.
    hit : (N, E) bool: whether the class is correct, or the label is present.
    bin : (N, E) bin of the confidence, in [0, n_bins). Small integers.
    brier : (N,) Brier score of the item.
    n_bins : number of bins, including the bin of exactly 1 if there is one.
    """

    confidence: np.ndarray
    hit: np.ndarray
    bin: np.ndarray
    brier: np.ndarray
    n_bins: int

    def take(self, rows) -> Confidence:
        """The statistics of the items `rows`, a slice or an array of indices."""
        arrays = (self.confidence, self.hit, self.bin, self.brier)
        return Confidence(  # type: ignore[call-arg]  # unpacks four arrays
            *(array[rows] for array in arrays), self.n_bins
        )


def confidence(
    target, scores, *, task: str, n_bins: int = BINS, like: str | None = None
) -> Confidence:
    """Compute the sufficient statistics of calibration for a test set.

    Bins are closed on the left, [i / n, (i + 1) / n), and the last one on both sides, so that it holds 1
    (Guo et al., ICML 2017). With ``like="torchmetrics"``, exactly 1 has a separate bin, number n + 1. Edges are
    i / n rounded to the scores' dtype, so that a vote of 2 in 5 is in the bin that begins at 0.4 for any dtype.
    (Some edges of torchmetrics are one float higher: the one at 0.4 of 15 bins in float32.)

    Parameters
    ----------
    target : (N,) class ids, or (N, L) of 0 and 1 for ``multilabel``.
    scores : (N, K) probabilities that add up to 1, or (N, L), each in [0, 1]; also a `RowFile`.

    The Brier score of an item is the sum over classes of (p - y)^2, in [0, 2] (scikit-learn's
    ``brier_score_loss`` with ``scale_by_half=False``); for ``multilabel`` the mean over labels, in
    [0, 1]. The predicted class has the largest score; ties go to the lowest id.

    Raises
    ------
    PermafrostError : scores that are not probabilities, NaN, wrong shapes or ids, no items.
    """
    target, scores = check(target, scores, task)
    blocks = ((block, scores[block]) for block in row_blocks(scores))
    return confidence_by_blocks(target, blocks, task=task, n_bins=n_bins, like=like)


def confidence_by_blocks(
    target, blocks, *, task: str, n_bins: int = BINS, like: str | None = None
) -> Confidence:
    """`confidence` of checked targets and of an iterator of (slice, scores), in order; holds one block at a time."""
    if not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise PermafrostError(f"{n_bins!r} bins", remedy="give a whole number of at least 1")
    edges = bin_edges(int(n_bins), like)[:-1]
    parts = [_of_block(target[block], scores, task, edges) for block, scores in blocks]
    return Confidence(  # type: ignore[call-arg]  # unpacks four arrays
        *(np.concatenate(each) for each in zip(*parts, strict=True)), len(edges)
    )


def bin_edges(n_bins: int, like: str | None) -> np.ndarray:
    """(n_bins + 1,) edges of the bins; a bin for exactly 1 begins and ends at 1."""
    if like is not None:
        look_up(LIKE, like, "there is no calibration like")
    edges = np.arange(n_bins + 1) / n_bins
    return np.append(edges, 1.0) if like else edges


def _of_block(target: np.ndarray, scores: np.ndarray, task: str, edges: np.ndarray) -> tuple:
    """The arrays of `Confidence` of some items; bins begin at `edges`."""
    if targets_of(task).several:
        trust, hit = scores, target == 1
        brier = np.mean((scores.astype(np.float64) - target) ** 2, axis=1)
    else:
        predicted = scores.argmax(axis=1)
        trust = np.take_along_axis(scores, predicted[:, None], axis=1)
        hit = (predicted == target)[:, None]
        true_scores = np.take_along_axis(scores, target[:, None], axis=1)[:, 0].astype(np.float64)
        squares = np.einsum("ij,ij->i", scores, scores, dtype=np.float64)
        brier = squares + 1.0 - 2.0 * true_scores
    places = np.searchsorted(edges.astype(scores.dtype), trust, side="right") - 1
    return trust, hit, places.astype(np.min_scalar_type(len(edges))), brier


def check(target, scores, task: str) -> tuple[np.ndarray, np.ndarray | RowFile]:
    """Check targets and probabilities, and that they match; raises as `confidence`."""
    target, scores = check_shapes(target, scores, task)
    low, high, wrong, first = np.inf, -np.inf, 0, None
    for block in row_blocks(scores):
        rows = scores[block]
        low, high = min(low, rows.min()), max(high, rows.max())
        if targets_of(task).one_class:
            sums = rows.sum(axis=1, dtype=np.float64)
            off = np.flatnonzero(np.abs(sums - 1.0) > _SUM_TOLERANCE)
            if off.size and first is None:
                first = f"row {block.start + off[0]}, {sums[off[0]]:g}"
            wrong += off.size
    if low < 0 or high > 1:
        raise PermafrostError(
            f"scores from {low:g} to {high:g} are not probabilities", remedy=_REMEDY
        )
    if wrong:
        raise PermafrostError(
            f"the scores of {wrong} of {len(scores)} items do not add up to 1 (first: {first})",
            remedy=_REMEDY,
        )
    return target, scores


def check_shapes(target, scores, task: str) -> tuple[np.ndarray, np.ndarray | RowFile]:
    """Check targets and finite scores of one length; scores may be logits, or a `RowFile`."""
    calibrated = {name: one.targets for name, one in TASKS.items() if one.targets.calibrated}
    targets = look_up(calibrated, task, "no calibration of")
    target = np.asarray(target)
    scores = scores if isinstance(scores, RowFile) else np.asarray(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if (
        scores.ndim != 2
        or target.shape != targets.shape(*scores.shape)
        or target.dtype.kind not in "iub"
    ):
        raise PermafrostError(
            f"target is {target.dtype} of shape {target.shape}, scores have the shape "
            f"{scores.shape}",
            remedy="give (N,) class ids or (N, L) labels of 0 and 1, and (N, K) scores",
        )
    if 0 in scores.shape:
        raise PermafrostError("there are no items to calibrate on", remedy="give a non-empty split")
    bad = np.concatenate(
        [
            block.start + np.flatnonzero(~np.isfinite(scores[block]).all(axis=1))
            for block in row_blocks(scores)
        ]
    )
    if bad.size:
        raise PermafrostError(
            f"{bad.size} of {len(scores)} items have NaN or infinite scores (first: row {bad[0]})",
            remedy="check the probe of these predictions, and run it again",
        )
    top = targets.highest(scores.shape[1])
    if target.dtype.kind != "b" and (target.min() < 0 or target.max() > top):
        raise PermafrostError(
            f"the target holds values from {target.min()} to {target.max()}, not 0 to {top}",
            remedy="give the targets of the same predictions",
        )
    # labels keep their small dtype: there may be millions
    return target.astype(np.int64) if targets.one_class else target, scores
