"""How difficult images are, and how well they separate backbones: item response with few backbones and many images.

Backbone j answers image i correctly with the probability of the one-parameter logistic (Rasch) model::

    1 / (1 + exp(d_i - a_j))        d_i ~ N(0, s^2)

Abilities a_j and the spread s maximise the marginal likelihood over the difficulties d_i, which are many, while the
backbones are few; the integral over d is a sum over a fine grid. A weak prior a_j ~ N(0, 5^2) keeps the ability of a
backbone finite that is always right. The difficulty of an image is its posterior mean. It depends only on how many
backbones are right, and puts this number on the scale of the abilities.

Discrimination is the point-biserial correlation, over backbones, of being right on an image with the number of right
answers to all others (item-rest correlation). The two-parameter model has a slope for each image, which a few answers
cannot determine, so it is left out.
Source: Rasch, Probabilistic Models for Some Intelligence and Attainment Tests (1960); Bock and Aitkin, Marginal
Maximum Likelihood Estimation of Item Parameters (Psychometrika 1981), with images in the place of persons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from permafrost.metrics.ratios import divide

_PRIOR = 5.0
# standard deviations, and largest spread in logits
_GRID = np.linspace(-8, 8, 321)
_SPREADS = (0.05, 10.0)


@dataclass(frozen=True)
class Difficulty:
    """Difficulties of N images to B backbones; see the module.

    Attributes
    ----------
    ability : (B,) logits; larger is better.
    spread : s, in logits.
    difficulty : (N,) posterior means in logits; larger is more difficult.
    """

    ability: np.ndarray
    spread: float
    difficulty: np.ndarray


def difficulty_of(right) -> Difficulty:
    """Fit the one-parameter model to (B, N) bool, whether each backbone is right on each image."""
    right = np.asarray(right, bool)
    backbones = len(right)
    solved = right.sum(axis=0)
    # sufficient: right answers of each backbone, and numbers of images by how many are right on them
    totals, images = right.sum(axis=1), np.bincount(solved, minlength=backbones + 1)
    number = np.arange(backbones + 1)[:, None]

    def posterior(values: np.ndarray) -> np.ndarray:
        """(B + 1, grid) log of the joint density of the number right and the difficulty."""
        ability, spread = values[:-1], np.exp(values[-1])
        grid = spread * _GRID
        wrong = np.logaddexp(0, ability[:, None] - grid).sum(axis=0)
        return -number * grid - wrong - _GRID**2 / 2

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        """What is minimised, and its gradient: expectations over the posterior of the difficulty."""
        ability, grid = values[:-1], np.exp(values[-1]) * _GRID
        joint = posterior(values)
        whole = logsumexp(joint, axis=1)
        fit = totals @ ability + images @ whole - ability @ ability / (2 * _PRIOR**2)
        weight = images[:, None] * np.exp(joint - whole[:, None])
        lost = expit(ability[:, None] - grid)
        by_ability = totals - lost @ weight.sum(axis=0) - ability / _PRIOR**2
        by_spread = (weight * grid * (lost.sum(axis=0) - number)).sum()
        return -fit / scale, -np.append(by_ability, by_spread) / scale

    scale = max(1, right.shape[1])
    bounds = [(None, None)] * backbones + [tuple(np.log(_SPREADS))]
    start = np.zeros(backbones + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    weight = posterior(found)
    weight = np.exp(weight - weight.max(axis=1, keepdims=True))
    spread = float(np.exp(found[-1]))
    means = spread * (weight @ _GRID) / weight.sum(axis=1)
    return Difficulty(found[:-1], spread, means[solved])


def discrimination_of(right) -> np.ndarray:
    """(N,) item-rest correlation of (B, N) bool.

    NaN with less than three backbones, if all are right or all wrong, or if they are equally good on the other images.
    """
    right = np.asarray(right, float)
    if len(right) < 3:
        return np.full(right.shape[1], np.nan)
    rest = right.sum(axis=1, keepdims=True) - right
    own, rest = right - right.mean(axis=0), rest - rest.mean(axis=0)
    norms = np.sqrt((own**2).sum(axis=0) * (rest**2).sum(axis=0))
    return divide((own * rest).sum(axis=0), np.where(norms > 1e-9, norms, 0.0))
