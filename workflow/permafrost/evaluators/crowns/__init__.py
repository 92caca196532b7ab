"""Evaluation of predicted tree crowns, and of any boxes, polygons or points, as DeepForest does it.

`evaluate` is the entry. Its default agrees with `deepforest.evaluate.evaluate_geometry` in what it
matches; where that drops images in silence, a declared rule decides (`rules`).
"""

from permafrost.evaluators.crowns.evaluate import evaluate
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.crowns.rules import DEEPFOREST

__all__ = ["DEEPFOREST", "CrownEvaluation", "evaluate"]
