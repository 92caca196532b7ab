"""Detections of one image or window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detections:
    """Boxes (M, 4) float64 corners (of points both the same), classes (M,) ids, scores (M,) float64."""

    boxes: np.ndarray
    classes: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def points(self) -> np.ndarray:
        """(M, 2) x and y of points."""
        return self.boxes[:, :2]

    def take(self, rows) -> Detections:
        return Detections(self.boxes[rows], self.classes[rows], self.scores[rows])

    def moved(self, by: np.ndarray) -> Detections:
        """Shifted by (4,)."""
        return Detections(self.boxes + by, self.classes, self.scores)

    def above(self, score: float) -> Detections:
        return self.take(self.scores >= score)

    def ranked(self) -> Detections:
        """By descending score; equal ones keep their order."""
        return self.take(np.argsort(-self.scores, kind="stable"))


def join(parts: list[Detections]) -> Detections:
    """All of them, in their order."""
    return Detections(
        np.concatenate([np.empty((0, 4)), *(part.boxes for part in parts)]),
        np.concatenate([np.empty(0, np.int64), *(part.classes for part in parts)]).astype(np.int64),
        np.concatenate([np.empty(0), *(part.scores for part in parts)]),
    )
