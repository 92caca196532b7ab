"""Evaluation of detections, instances and keypoints by COCO's and LVIS's rules; numpy only."""

from pathlib import Path

from .evaluate import evaluate
from .evaluation import Evaluation

# what each mode does where the peers are odd
QUIRKS = Path(__file__).with_name("QUIRKS.md")

__all__ = ["QUIRKS", "Evaluation", "evaluate"]
