"""Calibration of probabilities; numpy only."""

from permafrost.metrics.calibration.confidence import (
    Confidence,
    confidence,
    confidence_by_blocks,
)
from permafrost.metrics.calibration.conformal import PredictionSets, halves_of, prediction_sets
from permafrost.metrics.calibration.errors import (
    NAMES,
    evaluate,
    evaluate_sums,
    reliability,
    reliability_of_sums,
    unit_sums,
)
from permafrost.metrics.calibration.selective import aurc, entries_of, risk_coverage
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
    "PredictionSets",
    "Temperature",
    "aurc",
    "confidence",
    "confidence_by_blocks",
    "cross_fit",
    "entries_of",
    "evaluate",
    "evaluate_sums",
    "fit_temperature",
    "halves_of",
    "item_slopes",
    "prediction_sets",
    "reliability",
    "reliability_of_sums",
    "risk_coverage",
    "scale",
    "unit_sums",
]
