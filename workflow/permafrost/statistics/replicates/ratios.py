"""Recall, precision and F1 of detections, from pooled counts."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.ratios import divide


def ratios_of_hits(prefix: str, hits, truths, detections) -> dict[str, np.ndarray]:
    """``{prefix}_recall``, ``_precision`` and ``_f1`` from counts of one shape; NaN where undefined.

    F1 is 2 hits / (truths + detections): 0, not undefined, for who detects nothing.
    """
    return {
        f"{prefix}_recall": divide(hits, truths),
        f"{prefix}_precision": divide(hits, detections),
        f"{prefix}_f1": divide(2 * hits, truths + detections),
    }
