"""Measures of the features themselves, without a probe; numpy only.

The measures without labels say how features are spread, not how good they are: they are shown
beside accuracy and never ranked on.
"""

from .cka import cka_matrix, debiased_cka, side
from .directions import alignment, pair_alignment, uniformity
from .intrinsic_dimension import mle, two_nn
from .lidar import lidar
from .measure import Measure
from .registry import LABEL_FREE, LABELLED, MEASURES, measures
from .silhouette import silhouette
from .spectrum import alpha_req, lpca, nesum, participation_ratio, rankme, stable_rank

__all__ = [
    "LABELLED",
    "LABEL_FREE",
    "MEASURES",
    "Measure",
    "alignment",
    "alpha_req",
    "cka_matrix",
    "debiased_cka",
    "lidar",
    "lpca",
    "measures",
    "mle",
    "nesum",
    "pair_alignment",
    "participation_ratio",
    "rankme",
    "side",
    "silhouette",
    "stable_rank",
    "two_nn",
    "uniformity",
]
