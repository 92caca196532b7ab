"""Evaluation of detections, instances and keypoints by COCO's and LVIS's rules; numpy only."""

from importlib import import_module
from pathlib import Path

from permafrost.metrics.detection.evaluate import evaluate
from permafrost.metrics.detection.evaluation import Evaluation
from permafrost.metrics.detection.open_images import evaluate_open_images
from permafrost.metrics.detection.voc import evaluate_voc

# the modes' rules where pycocotools and lvis behave oddly
QUIRKS = Path(__file__).with_name("QUIRKS.md")
# imported on access; bare module names, so that no stage of a plan depends on them
_LATER = {
    "COCO": "coco",
    "COCOeval": "cocoeval",
    "LVIS": "lvis",
    "LVISEval": "lviseval",
    "LVISResults": "lvis",
    "DetectionStream": "streaming",
    "PreparedTruth": "prepared",
    "from_torchmetrics": "per_image",
    "init_as_pycocotools": "stand_in",
    "prepare": "prepared",
    "robustness": "slices",
}

__all__ = [
    "COCO",
    "COCOeval",
    "LVIS",
    "LVISEval",
    "LVISResults",
    "QUIRKS",
    "DetectionStream",
    "Evaluation",
    "PreparedTruth",
    "evaluate",
    "evaluate_open_images",
    "evaluate_voc",
    "from_torchmetrics",
    "init_as_pycocotools",
    "prepare",
    "robustness",
]


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
