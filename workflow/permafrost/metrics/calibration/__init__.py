"""Calibration of probabilities; numpy only."""

from permafrost.metrics.calibration.confidence import (
    Confidence,
    confidence,
    confidence_by_blocks,
)
from permafrost.metrics.calibration.errors import (
    NAMES,
    evaluate,
    evaluate_sums,
    reliability,
    reliability_of_sums,
    unit_sums,
)
from permafrost.metrics.calibration.temperature import (
    CrossFit,
    Temperature,
    cross_fit,
    fit_temperature,
    item_slopes,
    scale,
)

__all__ = [
    "NAMES",
    "Confidence",
    "CrossFit",
    "Temperature",
    "confidence",
    "confidence_by_blocks",
    "cross_fit",
    "evaluate",
    "evaluate_sums",
    "fit_temperature",
    "item_slopes",
    "reliability",
    "reliability_of_sums",
    "scale",
    "unit_sums",
]
