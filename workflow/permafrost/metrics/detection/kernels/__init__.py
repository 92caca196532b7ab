"""Similarity of detections and truths. To add a kernel, add a file here and a line below."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np

from permafrost.metrics.detection.inputs.tables import Detections, Truths, Whole
from permafrost.metrics.detection.masks.runs import Masks

KERNELS = {
    "bbox": "permafrost.metrics.detection.kernels.bbox:BoxOverlap",
    "segm": "permafrost.metrics.detection.kernels.segm:MaskOverlap",
    "oriented": "permafrost.metrics.detection.kernels.oriented:OrientedOverlap",
    "boundary": "permafrost.metrics.detection.kernels.boundary:BoundaryOverlap",
    "keypoints": "permafrost.metrics.detection.kernels.keypoints:KeypointSimilarity",
}
# kernels that compare masks
MASK_KERNELS = ("segm", "boundary")


@dataclass(frozen=True)
class Problem:
    """The input of a kernel.

    Attributes
    ----------
    truth_masks, detection_masks : masks of every row of the tables, for the mask kernels; those
        without a partner in their cell may be empty.
    boundary_ratio : width of the boundary band, as a share of the image's diagonal.
    sigmas : (K, J) sigma of every keypoint per category.
    whole : the whole truth, if only some of its images are evaluated.
    """

    truths: Truths
    detections: Detections
    truth_masks: Masks | None
    detection_masks: Masks | None
    boundary_ratio: float
    sigmas: np.ndarray | None
    whole: Whole | None = None


def make_kernel(name: str, problem: Problem):
    """The kernel `name` for a problem."""
    module, kind = KERNELS[name].split(":")
    return getattr(import_module(module), kind).of(problem)
