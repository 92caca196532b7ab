"""Panoptic quality of label maps, in COCO's format or as arrays; numpy only, and Pillow for files."""

from permafrost.metrics.panoptic.evaluate import evaluate
from permafrost.metrics.panoptic.result import PanopticEvaluation

__all__ = ["PanopticEvaluation", "evaluate"]
