"""Hits and numbers of objects of every image at a score threshold, and what is computed from their sums."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.objects.counting import TERMS, count_errors, count_terms
from permafrost.metrics.objects.hits import match_hits
from permafrost.metrics.ratios import ratios_of_hits

# rows of hits, truths, detections and images, before those of `count_terms`
_HEAD = 4


def count_images(kind: str, images, *, classes: int, threshold: float) -> np.ndarray:
    """(4 + 5 (K + 1), N) int64: hits, truths, detections, 1, and `count_terms` of all classes and of each.

    A detection that is left out of precision, since it lies on a crowd, is not counted.

    Parameters
    ----------
    images : per image the shapes, classes and crowds of the truth, and the shapes and classes of the detections; see
        `match_hits`.
    classes : K.
    """
    hits, numbers = [], []
    for truth, truth_classes, crowd, detections, found_classes in images:
        partner, counted = match_hits(kind, truth, crowd, detections, threshold=threshold)
        hits.append(np.count_nonzero(partner >= 0))
        sides = truth_classes[~crowd], found_classes[counted]
        numbers.append([np.bincount(each, minlength=classes) for each in sides])
    each = np.array(numbers, np.int64).reshape(-1, 2, classes).transpose(1, 2, 0)
    truths, found = np.concatenate([each.sum(axis=1, keepdims=True), each], axis=1)
    head = np.stack([np.array(hits, np.int64), truths[0], found[0], np.ones_like(truths[0])])
    terms = count_terms(truths, found)
    return np.concatenate([head, terms.reshape(TERMS * (classes + 1), -1)])


def ratios_of_counts(prefix: str, sums: np.ndarray) -> dict[str, np.ndarray]:
    """Metric name to (B,), or (K, B) for ``class_count_…``, from (4 + 5 (K + 1), B) sums of `count_images`."""
    *hits, images = sums[:_HEAD]
    terms = sums[_HEAD:].reshape(TERMS, -1, sums.shape[1])
    errors = count_errors(images, terms)
    return {
        **ratios_of_hits(prefix, *hits),
        **{name: values[0] for name, values in errors.items()},
        **{f"class_{name}": values[1:] for name, values in errors.items()},
    }
