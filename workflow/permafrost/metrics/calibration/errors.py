"""Calibration errors, Brier score and reliability diagram, from sums over bins.

With n_b entries in bin b, their summed confidence c_b and hits h_b, and n entries in all::

    expected_calibration_error = sum |h_b - c_b| / n
    rms_calibration_error      = sqrt(sum (h_b - c_b)^2 / n_b / n)
    maximum_calibration_error  = max |h_b - c_b| / n_b    over bins that hold an entry

These are torchmetrics' ``l1``, ``l2`` and ``max`` norms; ``like="torchmetrics"`` uses its bins, too.
All of them depend on these sums only. So resamples need no predictions: they weight the sums of each unit with the
number of times that the unit was drawn.

All four are lower for better probabilities; the Brier score also rewards discrimination between classes.
The calibration errors are biased upward, and more so on a resample, since sampling alone makes confidence and hits of
a bin differ: all percentiles of the resamples may exceed the value. Use
`statistics.resampling.intervals.basic_square_interval`.
Source: Naeini et al., AAAI 2015; Guo et al., ICML 2017; Brier, Monthly Weather Review 78 (1950).
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.calibration.confidence import BINS, Confidence, bin_edges, confidence
from permafrost.metrics.ratios import divide
from permafrost.metrics.tasks import BRIER, CALIBRATION_ERRORS

NAMES = (*CALIBRATION_ERRORS, BRIER)


def evaluate(
    target, scores, *, task: str, n_bins: int = BINS, like: str | None = None
) -> dict[str, float]:
    """The metrics in `NAMES` of a test set; arguments as `confidence`.

    ``multilabel`` counts every label of every item as one entry, with the probability of the label
    as confidence (torchmetrics' ``BinaryCalibrationError`` of all entries).
    Units: probability, [0, 1]; the Brier score of ``classification`` is in [0, 2].
    """
    items = confidence(target, scores, task=task, n_bins=n_bins, like=like)
    sums = unit_sums(items, np.zeros(len(items.brier), np.intp), 1)
    return {name: float(value[0]) for name, value in evaluate_sums(sums).items()}


def unit_sums(items: Confidence, units, n_units: int) -> np.ndarray:
    """(3 n_bins + 2, U) sums of each unit; `evaluate_sums` takes weighted sums of them.

    Rows: entries, confidence and hits of each bin; then Brier scores and number of items. With
    (U, B) counts of resamples, ``unit_sums(...) @ counts`` are the sums of all resamples.
    """
    units, bins = np.asarray(units, np.intp), items.n_bins
    entries = items.bin.shape[1]
    cells = (items.bin.astype(np.intp) * n_units + units[:, None]).ravel()
    sums = [
        np.bincount(cells, weights, bins * n_units).reshape(bins, n_units)
        for weights in (
            np.ones(len(units) * entries),
            items.confidence.ravel(),
            items.hit.ravel().astype(np.float64),
        )
    ]
    brier = np.bincount(units, items.brier, n_units)
    return np.concatenate([*sums, brier[None], np.bincount(units, minlength=n_units)[None]])


def evaluate_sums(sums: np.ndarray) -> dict[str, np.ndarray]:
    """The metrics in `NAMES`, each of the trailing shape of the (3 n_bins + 2, …) sums.

    They are NaN without items.
    """
    *binned, brier, items = sums
    count, trust, hits = np.split(np.asarray(binned), 3)
    gaps, entries = np.abs(hits - trust), count.sum(axis=0)
    each = divide(gaps, count, undefined=0.0)
    none = np.where(entries > 0, 0.0, np.nan)
    return {
        "expected_calibration_error": divide(gaps.sum(axis=0), entries),
        "rms_calibration_error": np.sqrt(divide((gaps * each).sum(axis=0), entries)),
        "maximum_calibration_error": each.max(axis=0) + none,
        "brier_score": divide(brier, items),
    }


def reliability(
    target, scores, *, task: str, n_bins: int = BINS, like: str | None = None
) -> dict[str, np.ndarray]:
    """The reliability diagram as columns, one row per bin; arguments as `confidence`.

    Returns
    -------
    ``lower``, ``upper`` (both 1 for a separate bin of exactly 1), ``count``,
    ``confidence`` (mean) and ``accuracy`` (share of hits), NaN in an empty bin.
    """
    items = confidence(target, scores, task=task, n_bins=n_bins, like=like)
    sums = unit_sums(items, np.zeros(len(items.brier), np.intp), 1)
    edges = bin_edges(n_bins, like)
    columns = {name: column[:, 0] for name, column in reliability_of_sums(sums).items()}
    return {"lower": edges[:-1], "upper": edges[1:], **columns}


def reliability_of_sums(sums: np.ndarray) -> dict[str, np.ndarray]:
    """``count``, ``confidence`` and ``accuracy``, (n_bins, …) each, from sums of bins."""
    count, trust, hits = np.split(np.asarray(sums)[:-2], 3)
    return {
        "count": count.astype(np.int64),
        "confidence": divide(trust, count),
        "accuracy": divide(hits, count),
    }
