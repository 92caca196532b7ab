"""Whether two backbones are practically the same over datasets: the Bayesian signed-rank test.

Where two differ by less than `rope`, no one would choose between them: a region of practical equivalence. Its bounds
are the user's to name, in units of the score. Datasets are taken for draws of a Dirichlet process whose prior is one
half of an observation of no difference.
Source: Benavoli, Corani, Demsar and Zaffalon, Time for a Change: A Tutorial for Comparing Multiple Classifiers Through
Bayesian Analysis (2017); the same numbers as baycomp's `two_on_multiple`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError

PRIOR = 0.5
# draws whose weights are held together
_TOGETHER = 1000


@dataclass(frozen=True)
class Posterior:
    """Probabilities, with the sum 1, that a further difference is most likely below, within or above the region."""

    lower: float
    within: float
    higher: float


def signed_rank(differences, *, rope: float, seed: int, draws: int = 20_000) -> Posterior:
    """Where the differences (D,) of one backbone less the other lie, higher being better.

    In each draw of weights of the datasets, the shares of Walsh averages below -rope, within, and above rope are
    compared (half of those at a bound to each side): probabilities are how often each is largest, ties shared. Without
    a region (rope = 0) none is within.

    Raises
    ------
    PermafrostError : a difference is missing, or `rope` is negative.
    """
    differences = np.asarray(differences, np.float64)
    if np.isnan(differences).any():
        raise PermafrostError(
            f"the difference on dataset {np.isnan(differences).argmax()} is missing",
            remedy="take the datasets that both backbones have",
        )
    if not 0 <= rope < math.inf:
        raise PermafrostError(
            f"a region of practical equivalence of {rope}", remedy="give 0 or a positive width"
        )
    values = np.concatenate([[0.0], differences])
    sums = values[:, None] + values
    below, above = _beyond(-sums, 2 * rope), _beyond(sums, 2 * rope)
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = np.zeros(3)
    for start in range(0, draws, _TOGETHER):
        weights = rng.standard_gamma(
            np.concatenate([[PRIOR], np.ones(len(differences))]),
            (min(_TOGETHER, draws - start), len(values)),
        )
        weights /= weights.sum(axis=1, keepdims=True)
        shares = [np.sum(weights @ side * weights, axis=1) for side in (below, above)]
        within = 1 - shares[0] - shares[1] if rope > 0 else np.full(len(weights), -1.0)
        sides = np.stack([shares[0], within, shares[1]], axis=1)
        largest = sides >= sides.max(axis=1, keepdims=True) - 1e-12
        counts += np.sum(largest / largest.sum(axis=1, keepdims=True), axis=0)
    return Posterior(*(counts / draws).tolist())


def _beyond(values: np.ndarray, bound: float) -> np.ndarray:
    return (values > bound) + (values == bound) / 2
