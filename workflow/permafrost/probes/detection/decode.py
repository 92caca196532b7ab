"""Convert a head's output per cell to detections in the pixels of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from permafrost.metrics.objects.detected import Detected
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.pyramid import Pyramid
from permafrost.probes.detection.stitching import suppress

# smallest score of a detection, and largest number of detections before suppression, as in FCOS
# (more if more may be kept)
LEAST_SCORE, CANDIDATES = 0.05, 1000


@dataclass(frozen=True)
class Decoder:
    """Converts outputs to detections.

    Parameters
    ----------
    threshold : threshold of suppression, an IoU; for points a distance in pixels of the sample.
    most : largest number of detections of a sample.
    """

    pyramid: Pyramid
    points: bool
    threshold: float
    most: int

    def samples(self, output: Output, scales: np.ndarray) -> list[Detected]:
        """The detections of each sample of a batch, by descending score, in pixels of the sample.

        Parameters
        ----------
        scales : (B, 2) working pixels per pixel, in x and in y.
        """
        scores = cell_scores(output).cpu().numpy()
        places = output.places.detach().cpu().numpy()
        return [self._sample(*each) for each in zip(scores, places, scales, strict=True)]

    def _sample(self, scores: np.ndarray, places: np.ndarray, scale: np.ndarray) -> Detected:
        cells, classes = np.nonzero(scores > LEAST_SCORE)
        found = scores[cells, classes].astype(np.float64)
        best = np.argsort(-found, kind="stable")[: max(CANDIDATES, self.most)]
        cells, classes, found = cells[best], classes[best], found[best]
        boxes = corners(places[cells], cells, self.pyramid)
        height, width = self.pyramid.working_size
        boxes = boxes.clip(0, [width, height, width, height]) / np.tile(scale, 2)
        candidates = Detected(boxes, classes, found)
        if not self.points:
            candidates = candidates.take((boxes[:, 2:] > boxes[:, :2]).all(axis=1))
        return suppress(candidates, self.threshold, points=self.points).take(slice(self.most))


def cell_scores(output: Output) -> torch.Tensor:
    """(B, L, K) in [0, 1]: the geometric mean of class probability and centre-ness; for points, the former."""
    classes = torch.sigmoid(output.logits.detach())
    if output.centred is None:
        return classes
    return (classes * torch.sigmoid(output.centred.detach())[..., None]).sqrt()


def corners(places: np.ndarray, cells: np.ndarray, pyramid: Pyramid) -> np.ndarray:
    """(n, 4) corners in working pixels, from `places` in strides from the centres of `cells`."""
    centres, strides = np.tile(pyramid.centres[cells], 2), np.tile(pyramid.strides[cells], 2)
    if places.shape[1] == 2:
        return centres + np.tile(places, 2).astype(np.float64) * strides
    return centres + places.astype(np.float64) * np.array([-1, -1, 1, 1]) * strides
