"""How far probabilities can be believed; numpy only."""

from permafrost.metrics.calibration.confidence import Confidence, confidence
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
