"""Probabilities of being best over datasets, expected ranks, and expected loss against the best.

All are computed from the draws of one model (`hierarchical`). For inference about other datasets,
backbones are ordered by their effects: their average quality on a further dataset of this kind. If
the datasets are fixed, they are ordered by their mean ranks on these datasets with infinite test
items and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.statistics.across_datasets.draws import told_apart
from permafrost.statistics.across_datasets.hierarchical import posterior
from permafrost.statistics.across_datasets.standings import mean_rank, ranks_within

# a jackknife variance is pooled with the dataset's mean variance, which counts as this many blocks
_POOLED = 10
# scores of tables that are sampled together; more gain nothing, and draws of all scores take memory
_TOGETHER = 3_200


@dataclass(frozen=True)
class Measured:
    """Scores of K backbones on D datasets, possibly with missing ones.

    Attributes
    ----------
    values : (D, K, S) per seed, NaN if missing.
    higher : (D,) whether higher is better.
    items : as in `draws.Scores`; rows without a score are NaN.
    ranked : (D,) the datasets that are ranked on. The model also uses the others.
    """

    values: np.ndarray
    higher: np.ndarray
    items: Sequence[np.ndarray] | None
    ranked: np.ndarray


@dataclass(frozen=True)
class Chances:
    """Posterior draws for K backbones.

    Attributes
    ----------
    level : (N, K) quantity that orders them, higher is better.
    loss : (N, K) how much worse each is than the best, in score units, averaged over datasets.
    """

    level: np.ndarray
    loss: np.ndarray

    def of_rank(self, places: int) -> np.ndarray:
        """(K,) probability of a rank among the first `places`; ties share the remaining places."""
        return probability_of_rank(self.ranks, places)

    @property
    def ranks(self) -> np.ndarray:
        return ranks_within(self.level)

    def apart(self, confidence: float) -> np.ndarray:
        """(K, K) whether the row's is better than the column's, at this joint `confidence`."""
        mean, draws = self.level.mean(axis=0), len(self.level)
        return told_apart(mean, self.level, datasets=None, parts=draws, confidence=confidence)


def all_chances(
    asked: Sequence[tuple[Measured, str]], *, draws: int, seed: int
) -> Iterator[tuple[int, Chances]]:
    """Yield the position of each asked table and its probabilities, not in their order.

    Tables of one shape are sampled together, which takes less time and gives the same draws.

    Parameters
    ----------
    asked : scores with one of `draws.UNCERTAINTIES`. With ``items``, probabilities are for these datasets, else
        for other datasets; ``datasets`` does not use errors of items and seeds.
    draws : minimum number of draws.
    """
    given = [_modelled(*one) for one in asked]
    alike: dict[tuple, list[int]] = {}
    for place, (scores, _, _, stays) in enumerate(given):
        alike.setdefault((scores.shape, stays), []).append(place)
    for (shape, stays), places in alike.items():
        most = max(1, _TOGETHER // math.prod(shape))
        for some in (places[start : start + most] for start in range(0, len(places), most)):
            stacked = (np.stack([given[place][part] for place in some]) for part in (0, 1))
            seeds = [seed] * len(some)
            drawn = posterior(*stacked, draws=draws, seed=seeds, with_values=stays)
            for number, place in enumerate(some):
                if drawn.values is None:
                    effects = drawn.effects[number]
                    yield place, Chances(effects, effects.max(axis=1, keepdims=True) - effects)
                    continue
                values = drawn.values[number][:, given[place][2]]
                average = values.mean(axis=1)
                loss = average.max(axis=1, keepdims=True) - average
                yield place, Chances(-mean_rank(values), loss)


def _modelled(
    measured: Measured, uncertainty: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Scores (D, K) with higher better, their error variances, which of these datasets are ranked,
    and whether the datasets are fixed."""
    signs = np.where(measured.higher, 1.0, -1.0)[:, None]
    missing = np.isnan(measured.values).all(axis=-1)
    means = np.mean(measured.values, axis=-1, where=~np.isnan(measured.values) | missing[..., None])
    errors = np.zeros(means.shape) if uncertainty == "datasets" else variances(measured)
    # a dataset with one score does not compare backbones
    used = np.sum(~missing, axis=1) > 1
    return (means * signs)[used], errors[used], measured.ranked[used], uncertainty == "items"


def variances(measured: Measured) -> np.ndarray:
    """(D, K) variance of scores from test items and seeds, without the common part.

    The variance between seeds is pooled over the backbones of a dataset.
    """
    values = measured.values
    count = np.sum(~np.isnan(values), axis=-1)
    known = np.maximum(count, 1)
    means = np.nansum(values, axis=-1) / known
    squares = np.nansum((values - means[..., None]) ** 2, axis=(1, 2))
    degrees = np.sum(known - 1, axis=1)
    found = (squares / np.maximum(degrees, 1))[:, None] / known
    for row, items in enumerate(measured.items or ()):
        there, parts = count[row] > 0, items.shape[1]
        if there.sum() > 1 and parts > 1:
            own = items[there] - items[there].mean(axis=0)
            own = np.sum(own**2, axis=1) * parts / (parts - 1) * len(own) / (len(own) - 1)
            found[row, there] += (parts * own + _POOLED * own.mean()) / (parts + _POOLED)
    return found


def probability_of_rank(ranks, places: int) -> np.ndarray:
    """(K,) share of draws (N, K) with a rank among the first `places`; ties share places."""
    drawn = np.asarray(ranks, np.float64)[..., None]
    ahead = np.sum(np.swapaxes(drawn, -1, -2) < drawn, axis=-1)
    level = np.sum(np.swapaxes(drawn, -1, -2) == drawn, axis=-1)
    return np.clip((places - ahead) / level, 0, 1).mean(axis=0)
