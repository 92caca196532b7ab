"""Analyses of an evaluation: tables, confusion, kinds of errors, thresholds, calibration.

All use a finished `Evaluation` and the detections within its caps, the ones that are scored.
"""

from permafrost.metrics.detection.analysis.calibration import Calibration, calibrate
from permafrost.metrics.detection.analysis.confusion import confused_pairs, confusion_matrix
from permafrost.metrics.detection.analysis.olrp import OptimalLRP, optimal_lrp
from permafrost.metrics.detection.analysis.overview import Analysis, analyse
from permafrost.metrics.detection.analysis.tables import (
    category_table,
    curve_table,
    detection_table,
    image_table,
    pair_table,
)
from permafrost.metrics.detection.analysis.tide import ErrorKinds, error_kinds

__all__ = [
    "Analysis",
    "Calibration",
    "ErrorKinds",
    "OptimalLRP",
    "analyse",
    "calibrate",
    "category_table",
    "confused_pairs",
    "confusion_matrix",
    "curve_table",
    "detection_table",
    "error_kinds",
    "image_table",
    "optimal_lrp",
    "pair_table",
]
