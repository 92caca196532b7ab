"""Confident learning: which given labels a probe contradicts with confidence.

The threshold of a class is the mean probability of this class over the images with its label. An image is confidently
of the class whose threshold its probability reaches; of several, of the most probable one. If this is another class
than its label, the label is contradicted, unless it is the most probable class.
Source: Northcutt, Jiang and Chuang, Confident Learning: Estimating Uncertainty in Dataset Labels (JAIR 2021), equations
1 and 2, with the rules for ties and empty classes of cleanlab 2.9 (``filter_by="confident_learning"``).

The calibrated confident joint of the same paper, an estimate of how many labels are wrong, is left out. It takes
the errors of a probe for wrong labels, and linear probes of frozen features err often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.calibration.confidence import check

# probabilities that differ by less are equal, as in cleanlab
_SAME = 1e-6


@dataclass(frozen=True)
class Confident:
    """What a probe is confident of, on N images of K classes.

    Attributes
    ----------
    classes : (N,) class that an image is confidently of, -1 if none.
    contradicted : (N,) bool.
    own : (N,) probability of the given label (self-confidence).
    margin : (N,) this, less the largest probability of another class; in [-1, 1].
    """

    classes: np.ndarray
    contradicted: np.ndarray
    own: np.ndarray
    margin: np.ndarray


def confident(given, probabilities) -> Confident:
    """Confident learning on the labels of a test set.

    Parameters
    ----------
    given : (N,) class ids. probabilities : (N, K), of a probe that has not seen the image.

    Raises
    ------
    PermafrostError : no images, NaN, scores that are not probabilities, or ids that are not of K classes.
    """
    given, probabilities = check(given, probabilities, "classification")
    probabilities = np.asarray(probabilities, np.float64)
    rows, count = np.arange(len(given)), probabilities.shape[1]
    own = probabilities[rows, given]
    images = np.bincount(given, minlength=count)
    means = np.bincount(given, own, count) / np.maximum(images, 1)
    thresholds = np.where(images > 0, np.maximum(means, 2 * _SAME), np.inf)
    reached = probabilities >= thresholds - _SAME
    most = probabilities.argmax(axis=1)
    classes = np.where(reached.sum(axis=1) > 1, most, reached.argmax(axis=1))
    classes = np.where(reached.any(axis=1), classes, -1)
    others = probabilities.copy()
    others[rows, given] = 0.0
    contradicted = (classes >= 0) & (classes != given) & (most != given)
    return Confident(classes, contradicted, own, own - others.max(axis=1))
