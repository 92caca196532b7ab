"""Panoptic quality of label maps, in COCO's format or as arrays; numpy only, and Pillow for files."""

from .evaluate import evaluate
from .result import PanopticEvaluation

__all__ = ["PanopticEvaluation", "evaluate"]
