"""Panoptic quality of label maps, in COCO's format or as arrays; numpy only, and Pillow for files."""

from permafrost.evaluators.panoptic.evaluate import evaluate
from permafrost.evaluators.panoptic.result import PanopticEvaluation

__all__ = ["PanopticEvaluation", "evaluate"]
