"""Evaluation of predicted tree crowns, or of any boxes, polygons or points, as DeepForest does it.

The entry point is `evaluate`. By default it matches as `deepforest.evaluate.evaluate_geometry`
does. DeepForest silently drops some images; here a declared rule decides (`rules`).
"""

from permafrost.evaluators.crowns.evaluate import evaluate
from permafrost.evaluators.crowns.result import CrownEvaluation
from permafrost.evaluators.crowns.rules import DEEPFOREST

__all__ = ["DEEPFOREST", "CrownEvaluation", "evaluate"]
