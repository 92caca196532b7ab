"""Warnings about inputs that are valid but probably wrong."""

from __future__ import annotations

import numpy as np

from permafrost.metrics.detection.inputs.tables import Detections, Images

# a larger share of exact copies is unlikely to be a coincidence
_MOST_DUPLICATES = 0.01
# odd numbers without a pattern, one for each column that is compared
_MIXERS = np.array(
    [
        *(0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93),
        *(0xC2B2AE3D27D4EB4F, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53),
    ],
    np.uint64,
)


def detection_warnings(detections: Detections, images: Images) -> list[str]:
    """Warnings about detections: none at all, implausible scores, copies, boxes as corners."""
    source = detections.source
    if not len(detections):
        return [f"{source}: there are no detections, so nothing is found"]
    return [
        *_score_warning(detections.scores, source),
        # LVIS's rules omit detections, so that batches and the whole would have different counts
        *(_duplicate_warning(detections) if images.negative is None else []),
        *(
            corners_warning(detections.boxes, detections.image, images, source)
            if detections.corners is None
            else []
        ),
    ]


def _score_warning(scores: np.ndarray, source: str) -> list[str]:
    outside = np.count_nonzero((scores < 0) | (scores > 1))
    if not outside:
        return []
    return [
        f"{source}: {outside} of {len(scores)} scores lie outside 0 to 1 ({scores.min():g} to"
        f" {scores.max():g}); their order is used, their calibration is not judged"
    ]


def _duplicate_warning(detections: Detections) -> list[str]:
    """Exact copies: the same image, category, score and (known) box."""
    known = np.isfinite(detections.boxes).all(axis=1)
    if detections.keypoints is not None or not known.any():
        return []
    rows = np.column_stack(
        [
            *(detections.image[known], detections.category[known], detections.scores[known]),
            detections.boxes[known],
        ]
    )
    few = _MOST_DUPLICATES * len(detections)
    if _alike(rows) <= few:
        return []
    if detections.corners is not None:
        # boxes of two directions may have one upright box
        rows = np.column_stack([rows, detections.corners[known].reshape(-1, 8)])
    rows = rows[np.lexsort(rows.T)]
    copies = np.count_nonzero((rows[1:] == rows[:-1]).all(axis=1))
    if copies <= few:
        return []
    return [
        f"{detections.source}: {copies} of {len(detections)} detections are exact copies of others (same"
        " image, category, score and box), and every copy of a hit counts as a false alarm"
    ]


def _alike(rows: np.ndarray) -> int:
    """An upper bound of the rows that repeat others, from one number for each: sorting it is fast."""
    # 0 and -0 are equal
    bits = (rows + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    mixed = np.sort((bits * _MIXERS).sum(axis=1))
    return int(np.count_nonzero(mixed[1:] == mixed[:-1]))


def corners_warning(boxes: np.ndarray, image: np.ndarray, images: Images, source: str) -> list[str]:
    """A warning if the boxes look like (x0, y0, x1, y1) instead of (x, y, width, height).

    In corners, the third number exceeds the first and the fourth the second; read as sizes, they
    extend beyond the image. The warning appears if the first holds for every box, all corners are
    inside their image and a fifth of the boxes extend beyond it as sizes; or if both hold for half of the boxes.
    If image sizes are unknown, ten boxes that all have the first property are enough.
    """
    known = np.isfinite(boxes).all(axis=1)
    boxes, image = boxes[known], image[known]
    ordered = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    if not ordered.any() or not (boxes[:, :2] > 0).any():
        return []
    widths, heights = images.widths[image], images.heights[image]
    if not ((widths > 0) & (heights > 0)).all():
        suspect = len(boxes) >= 10 and ordered.all()
    else:
        inside = (boxes[:, 2] <= widths) & (boxes[:, 3] <= heights)
        out = (boxes[:, 0] + boxes[:, 2] > widths + 1) | (boxes[:, 1] + boxes[:, 3] > heights + 1)
        suspect = (ordered & out).mean() >= 0.5 or (
            (ordered & inside).all() and out.mean() > 0.2 and len(boxes) > 3
        )
    if not suspect:
        return []
    return [
        f"{source}: the boxes look like corners (x0, y0, x1, y1);"
        " COCO boxes are (x, y, width, height)"
    ]
