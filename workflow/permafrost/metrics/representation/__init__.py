"""Measures of the features themselves, without a probe; numpy only.

The measures without labels describe how features are distributed, not how good they are: they are
shown next to accuracy and never rank backbones.
"""

from permafrost.metrics.representation.cka import cka_matrix, debiased_cka, side
from permafrost.metrics.representation.directions import alignment, view_alignment
from permafrost.metrics.representation.lidar import lidar
from permafrost.metrics.representation.measure import Measure
from permafrost.metrics.representation.registry import (
    LABEL_FREE,
    LABELLED,
    MEASURES,
    VIEW_MEASURES,
    measures,
    measures_of_views,
)

__all__ = [
    "LABELLED",
    "LABEL_FREE",
    "MEASURES",
    "VIEW_MEASURES",
    "Measure",
    "alignment",
    "cka_matrix",
    "debiased_cka",
    "lidar",
    "measures",
    "measures_of_views",
    "side",
    "view_alignment",
]
