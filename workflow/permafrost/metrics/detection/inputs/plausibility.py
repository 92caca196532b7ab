"""Inputs that are valid, but look as if something else was meant."""

from __future__ import annotations

import numpy as np

from .tables import Images


def corners_warning(boxes: np.ndarray, image: np.ndarray, images: Images, source: str) -> list[str]:
    """A warning if the boxes look like (x0, y0, x1, y1) instead of (x, y, width, height).

    Corners have their third number above the first and the fourth above the second in every box,
    and as sizes they reach out of the image. Where the image's size is unknown, ten boxes that all
    have the first property are taken as enough.
    """
    known = np.isfinite(boxes).all(axis=1)
    boxes, image = boxes[known], image[known]
    if len(boxes) < 4 or not (boxes[:, 2:] > boxes[:, :2]).all() or not (boxes[:, :2] > 0).any():
        return []
    widths, heights = images.widths[image], images.heights[image]
    sized = (widths > 0) & (heights > 0)
    if sized.all():
        inside = (boxes[:, 2] <= widths) & (boxes[:, 3] <= heights)
        out = (boxes[:, 0] + boxes[:, 2] > widths + 1) | (boxes[:, 1] + boxes[:, 3] > heights + 1)
        suspect = inside.all() and out.mean() > 0.2
    else:
        suspect = len(boxes) >= 10
    if not suspect:
        return []
    return [
        f"{source}: the boxes look like corners (x0, y0, x1, y1);"
        " COCO boxes are (x, y, width, height)"
    ]
