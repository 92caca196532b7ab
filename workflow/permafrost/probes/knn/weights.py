"""Votes of neighbours that count by their similarity, so that near ones outvote far ones.

A neighbour weighs exp(s / T), with s its cosine similarity to the query, also where neighbours were
found by L2: distances have no scale that one temperature could fit, and cosines have.
Source: Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination (2018);
T = 0.07 as in the evaluations of DINO.
"""

from __future__ import annotations

import numpy as np

from permafrost.probes.knn.distances import distances, unit


def similarities(train_x, test_x, found: np.ndarray) -> np.ndarray:
    """(M, k) float64 cosine similarities of queries to their neighbours `found`; 0 for a zero vector."""
    return 1.0 - distances(unit(train_x), unit(test_x), found, "cosine")


def weighted_vote(
    found: np.ndarray,
    similarity: np.ndarray,
    train_y,
    *,
    temperature: float,
    n_classes: int,
    task: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and prediction from (M, k) neighbours that weigh exp(similarity / temperature).

    Returns
    -------
    scores : (M, n_classes) float32, the share of the weight with each class or label.
    prediction : (M,) int64, the class with the highest score, the lowest id of those that are equal
        in float32; or (M, n_classes) uint8, the labels with more than half of the weight.
    """
    # only ratios count, and the largest weight is 1: nothing overflows, however small T is
    weights = np.exp((similarity - similarity.max(axis=1, keepdims=True)) / temperature)
    weights /= weights.sum(axis=1, keepdims=True)
    labels = np.asarray(train_y)[found]
    if task == "multilabel":
        scores = np.einsum("mk,mkl->ml", weights, labels).astype(np.float32)
        return scores, (scores > 0.5).astype(np.uint8)
    cells = np.arange(len(found))[:, None] * n_classes + labels
    total = np.bincount(cells.ravel(), weights.ravel(), minlength=len(found) * n_classes)
    # float32 takes away what the order of summation adds, so that equal votes are equal
    scores = total.reshape(len(found), n_classes).astype(np.float32)
    return scores, scores.argmax(axis=1)
