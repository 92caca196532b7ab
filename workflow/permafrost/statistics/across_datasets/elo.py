"""Elo ratings: the strengths of Bradley and Terry's model, fitted to wins by maximum likelihood.

They do not depend on the order of the comparisons, unlike sequential Elo updates. The likelihood
has a maximum only if no set of backbones wins every comparison with all others (Ford, 1957).
Otherwise every pair gets 1 / (K - 1) of an additional tied game, one game per backbone, which keeps
ratings finite: a winner of all D games against one other backbone is rated as if it had won D + 1/2
of D + 1. `elo` reports this.
Source: Bradley and Terry, Rank Analysis of Incomplete Block Designs (1952); Hunter, MM Algorithms for
Generalized Bradley-Terry Models (2004).
"""

from __future__ import annotations

import math

import numpy as np

MEAN_RATING = 1000.0
# a difference of 400 means odds of ten to one
_POINTS = 400 / math.log(10)
_STEPS = 100
_CLOSE = 1e-10


def elo(wins) -> tuple[np.ndarray, np.ndarray]:
    """Ratings (…, K) with mean 1000, and (…) whether ties were added to keep them finite.

    Parameters
    ----------
    wins : (…, K, K) games won by the row's backbone against the column's; a tie counts half.
    """
    wins = np.array(wins, np.float64)
    backbones = wins.shape[-1]
    diagonal = np.arange(backbones)
    wins[..., diagonal, diagonal] = 0
    endless = ~_strongly_connected(wins > 0)
    if backbones > 1:
        wins = wins + endless[..., None, None] * (0.5 / (backbones - 1)) * (1 - np.eye(backbones))
    return MEAN_RATING + _POINTS * _strengths(wins), endless


def _strengths(wins: np.ndarray) -> np.ndarray:
    """(…, K) log strengths with mean 0, by Newton's method; steps that overshoot are halved."""
    games = wins + np.swapaxes(wins, -1, -2)
    won = wins.sum(axis=-1)
    strengths = np.zeros(won.shape)
    backbones = won.shape[-1]
    level, gradient, curvature = _likelihood(strengths, games, won)
    for _ in range(_STEPS):
        # strengths are determined up to a constant; adding it makes the matrix regular and the
        # step's mean 0
        step = np.linalg.solve(curvature + 1 / backbones, gradient[..., None])[..., 0]
        if not step.size or np.abs(step).max() < _CLOSE:
            break
        share = np.ones((*won.shape[:-1], 1))
        for _ in range(30):
            tried, *slopes = _likelihood(strengths + share * step, games, won)
            worse = tried < level - 1e-12 * np.abs(level)
            if not worse.any():
                break
            share = np.where(worse[..., None], share / 2, share)
        strengths = strengths + share * step
        level, (gradient, curvature) = tried, slopes
    return strengths


def _likelihood(strengths, games, won) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log likelihood (…), gradient (…, K) and negative second derivatives (…, K, K)."""
    gaps = strengths[..., :, None] - strengths[..., None, :]
    chance = 1 / (1 + np.exp(-gaps))
    # won_ij log p_ij, summed as strengths x wins minus games x log(1 + e^gap), each pair once
    level = np.sum(strengths * won, -1) - _each_pair(games, gaps, strengths)
    gradient = won - np.sum(games * chance, axis=-1)
    weights = games * chance * (1 - chance)
    diagonal = np.arange(weights.shape[-1])
    curvature = -weights
    curvature[..., diagonal, diagonal] += weights.sum(axis=-1)
    return level, gradient, curvature


def _each_pair(games, gaps, strengths) -> np.ndarray:
    """(…) sum over pairs of games x log(e^strength + e^other strength)."""
    both = np.logaddexp(0, gaps) + strengths[..., None, :]
    return np.sum(games * both, axis=(-2, -1)) / 2


def _strongly_connected(beats: np.ndarray) -> np.ndarray:
    """(…) whether each (…, K, K) graph of wins is strongly connected."""
    reached = (beats | np.eye(beats.shape[-1], dtype=bool)).astype(np.float32)
    for _ in range(max(beats.shape[-1] - 1, 1).bit_length()):
        reached = np.minimum(reached @ reached, 1)
    return np.all(reached > 0, axis=(-2, -1))
