"""Masks from arrays of pixels, for tests."""

from __future__ import annotations

import numpy as np
from permafrost.metrics.detection.masks.runs import Masks, masks_of_runs


def masks_of_images(images) -> Masks:
    """From 2-d arrays in which everything that is not 0 is foreground."""
    runs = []
    for image in images:
        flat = (np.asarray(image) != 0).T.ravel()
        edges = np.flatnonzero(np.diff(flat, prepend=False, append=not flat[-1]))
        runs.append(np.diff(edges, prepend=0))
    heights, widths = np.array([image.shape for image in images], np.int64).T
    lengths = [len(each) for each in runs]
    return masks_of_runs(lengths, np.concatenate(runs), heights, widths)
