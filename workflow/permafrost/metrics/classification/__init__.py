"""Metrics of single-label and multi-label classification; numpy only."""

from permafrost.metrics.classification.accuracy import accuracy, balanced_accuracy
from permafrost.metrics.classification.average_precision import (
    average_precision,
    macro_average_precision,
    micro_average_precision,
    per_class_average_precision,
)
from permafrost.metrics.classification.confusion import class_counts, confusion_matrix
from permafrost.metrics.classification.per_class import (
    macro_f1,
    macro_precision,
    macro_recall,
    per_class_precision,
    per_class_recall,
)
from permafrost.metrics.classification.topk import top_k_accuracy, top_k_hits

__all__ = [
    "accuracy",
    "average_precision",
    "balanced_accuracy",
    "class_counts",
    "confusion_matrix",
    "macro_average_precision",
    "macro_f1",
    "macro_precision",
    "macro_recall",
    "micro_average_precision",
    "per_class_average_precision",
    "per_class_precision",
    "per_class_recall",
    "top_k_accuracy",
    "top_k_hits",
]
