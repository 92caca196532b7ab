"""Object keypoint similarity."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError

# standard deviation of annotations of each keypoint of a person, in tenths; divided below, as in
# pycocotools, to get the same last bits
COCO_SIGMAS = (
    np.array(
        [0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72]
        + [0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89, 0.89]
    )
    / 10.0
)

# pairs compared at once
_BLOCK = 1 << 13


class KeypointSimilarity:
    """OKS: mean over the labelled points of exp(-distance² / (2 area (2 sigma)²)).

    For a truth without a labelled point, the distance is from each detected point to its box, enlarged
    three times. The visibility of detected points is ignored; crowds have no special rule.
    """

    def __init__(self, detections, truths, boxes, areas, categories, sigmas) -> None:
        self.detections, self.truths = detections, truths
        self.boxes, self.areas, self.categories = boxes, areas, categories
        self.variances = (sigmas * 2) ** 2

    @classmethod
    def of(cls, problem) -> KeypointSimilarity:
        """From the tables of a `Problem`."""
        truths = problem.truths
        return cls(
            problem.detections.keypoints,
            truths.keypoints,
            truths.boxes,
            truths.areas,
            truths.category,
            problem.sigmas,
        )

    def bound(self, detections, truths) -> None:
        """None: no bound is cheaper than the value."""
        return None

    def extents(self) -> None:
        """None: OKS is above 0 at any distance."""
        return None

    def exact(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        """(P,) OKS."""
        out = np.zeros(len(detections))
        for start in range(0, len(out), _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = self._block(detections[part], truths[part])
        return out

    def _block(self, detections: np.ndarray, truths: np.ndarray) -> np.ndarray:
        points = self.detections[detections]
        true = self.truths[truths]
        labelled = true[:, :, 2] > 0
        count = np.count_nonzero(labelled, axis=1)
        dx, dy = points[:, :, 0] - true[:, :, 0], points[:, :, 1] - true[:, :, 1]
        bare = np.flatnonzero(count == 0)
        x, y, width, height = self.boxes[truths[bare]].T[:, :, None]
        dx[bare] = _beyond(points[bare, :, 0], x - width, x + width * 2)
        dy[bare] = _beyond(points[bare, :, 1], y - height, y + height * 2)
        spread = self.variances[self.categories[truths]]
        area = (self.areas[truths] + np.spacing(1))[:, None]
        error = (dx**2 + dy**2) / spread / area / 2
        labelled[bare] = True
        count[bare] = labelled.shape[1]
        out = np.empty(len(points))
        # sum rows with equal numbers of points together: NumPy's pairwise sum then adds each row in
        # the same order as alone
        for points_used in np.unique(count):
            rows = np.flatnonzero(count == points_used)
            used = error[rows][labelled[rows]].reshape(len(rows), points_used)
            out[rows] = np.sum(np.exp(-used), axis=1) / points_used
        return out


def _beyond(values, low, high) -> np.ndarray:
    """Distance of values from [low, high], 0 inside."""
    return np.maximum(0, low - values) + np.maximum(0, values - high)


def sigmas_per_category(sigmas, categories) -> np.ndarray:
    """(K, J) sigmas: COCO's 17 for None, one list for all, or a mapping from category id to a list.

    Raises
    ------
    PermafrostError : a category without sigmas, lists of different lengths, numbers not above 0.
    """
    if sigmas is None:
        sigmas = COCO_SIGMAS
    if not isinstance(sigmas, dict):
        sigmas = dict.fromkeys(categories.ids.tolist() or [0], sigmas)
    rows = []
    for category in categories.ids.tolist() or [0]:
        if category not in sigmas:
            raise PermafrostError(f"no sigmas for the category {category}", where="sigmas")
        row = np.asarray(sigmas[category], np.float64)
        if row.ndim != 1 or not len(row) or not (np.isfinite(row) & (row > 0)).all():
            raise PermafrostError(
                "sigmas must be a list of positive numbers", where=f"sigmas: {category}"
            )
        rows.append(row)
    if len({len(row) for row in rows}) != 1:
        raise PermafrostError("categories have different numbers of keypoints", where="sigmas")
    return np.stack(rows)
