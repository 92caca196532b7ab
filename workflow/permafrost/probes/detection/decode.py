"""Convert a head's output per cell to detections in the pixels of a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from permafrost.metrics.objects.detected import Detected
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.pyramid import Pyramid
from permafrost.probes.detection.shapes.shape import HeadShape

# smallest score of a detection, and largest number of detections before suppression, as in FCOS
# (more if more may be kept)
LEAST_SCORE, CANDIDATES = 0.05, 1000


@dataclass(frozen=True)
class Decoder:
    """Converts outputs to detections.

    Parameters
    ----------
    shape : shape of the objects.
    threshold : threshold of suppression, see `HeadShape.suppress`; distances are in pixels of the sample.
    most : largest number of detections of a sample.
    """

    pyramid: Pyramid
    shape: HeadShape
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
        placed = self.shape.decode(places[cells], cells, self.pyramid, scale)
        candidates = Detected(classes=classes, scores=found, **placed)
        candidates = candidates.take(self.shape.real(candidates))
        return self.shape.suppress(candidates, self.threshold).take(slice(self.most))


def cell_scores(output: Output) -> torch.Tensor:
    """(B, L, K) in [0, 1]: the geometric mean of class probability and centre-ness; without
    centre-ness, the former."""
    classes = torch.sigmoid(output.logits.detach())
    if output.centred is None:
        return classes
    return (classes * torch.sigmoid(output.centred.detach())[..., None]).sqrt()
