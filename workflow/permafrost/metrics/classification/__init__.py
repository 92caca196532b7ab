"""Metrics of single-label and multi-label classification; numpy only."""

from .accuracy import accuracy, balanced_accuracy
from .average_precision import (
    average_precision,
    macro_average_precision,
    micro_average_precision,
    per_class_average_precision,
)
from .confusion import class_counts, confusion_matrix
from .per_class import (
    macro_f1,
    macro_precision,
    macro_recall,
    per_class_precision,
    per_class_recall,
)
from .topk import top_k_accuracy, top_k_hits

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
