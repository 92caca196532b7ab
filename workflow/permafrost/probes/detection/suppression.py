"""Non-maximum suppression, class by class."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from permafrost.data.geometries import POINT
from permafrost.metrics.objects.detected import Detected
from permafrost.metrics.objects.suppression import suppress as suppress_crowns


def suppress(found: Detected, threshold: float, *, points: bool) -> Detected:
    """Without those that a better one of the same class explains; by descending score.

    Parameters
    ----------
    threshold : a box goes where its IoU with a better one is above it, a point where it lies nearer.
    """
    if len(found) < 2:
        return found
    if not points:
        return found.take(_boxes(found, threshold))
    kept = []
    for label in np.unique(found.classes):
        own = np.flatnonzero(found.classes == label)
        rest = suppress_crowns(POINT, found.centres[own], found.scores[own], threshold=threshold)
        kept.append(own[rest])
    rows = np.sort(np.concatenate(kept))
    return found.take(rows).ranked()


def _boxes(found: Detected, threshold: float) -> np.ndarray:
    import torch

    # classes side by side, so that their boxes do not meet
    apart = found.boxes.max() - min(found.boxes.min(), 0.0) + 1
    boxes = found.boxes + (found.classes * apart)[:, None]
    kept = _nms()(torch.from_numpy(boxes), torch.from_numpy(found.scores), threshold)
    return kept.numpy()


@cache
def _nms():
    """``torchvision.ops.nms`` as it is compiled.

    Importing torchvision imports torch's compiler too, five seconds of each job; its library of
    compiled functions alone is loaded in milliseconds.
    """
    import torch

    package = find_spec("torchvision")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    for library in sorted(folder.glob("_C*.so")) if package is not None else ():
        torch.ops.load_library(library)
    if hasattr(torch.ops.torchvision, "nms"):
        return torch.ops.torchvision.nms
    from torchvision.ops import nms

    return nms
