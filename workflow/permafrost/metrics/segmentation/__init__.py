"""Metrics of semantic segmentation, from confusion matrices of pixels; numpy only."""

from permafrost.metrics.segmentation.boundary import boundary_counts, interior
from permafrost.metrics.segmentation.confusion import class_counts, confusion_matrix
from permafrost.metrics.segmentation.evaluate import evaluate, evaluate_counts

__all__ = [
    "boundary_counts",
    "class_counts",
    "confusion_matrix",
    "evaluate",
    "evaluate_counts",
    "interior",
]
