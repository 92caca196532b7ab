"""Accuracy of a classified map, and areas of its classes, from reference points of a sampling design.

The entry point is `evaluate`.
"""

from permafrost.evaluators.map_accuracy.evaluate import evaluate
from permafrost.evaluators.map_accuracy.result import MapAccuracy

__all__ = ["MapAccuracy", "evaluate"]
