"""Agreement of two sensors, or of two backbones: whether their features of one place resemble each other.

Recall@k is the share of places whose features by one sensor have those of the same place by the other sensor among
their k nearest, by cosine. Linear CKA compares the similarities among places and needs no common space, so it is
also defined for features of other lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.metrics.representation import debiased_cka, side
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.resampling.intervals import share_interval, wilson_interval
from permafrost.statistics.resampling.jackknife import spread_of
from permafrost.statistics.resampling.student_t import t_quantile
from permafrost.statistics.resampling.units import Units

_BLOCK_BYTES = 32 << 20
# cosines that differ by less are equal
_PLACES = 9
_SHUFFLES = 20


@dataclass(frozen=True)
class Agreement:
    """One number about N places.

    Attributes
    ----------
    measure : ``recall@k`` or ``cka``. direction : ``a to b``: places of a are sought in b; None for CKA.
    by_chance : of recall, k / N; of CKA, the mean of 20 random pairings.
    """

    measure: str
    direction: str | None
    value: float
    lower: float
    upper: float
    by_chance: float


def agreement(
    first: np.ndarray,
    second: np.ndarray,
    units: Units,
    *,
    ks: Sequence[int] = (1, 5, 10),
    centred: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Agreement]:
    """Recall of the same place in both directions, and debiased linear CKA.

    Parameters
    ----------
    first, second : (N, d) and (N, d') features of the same places in the same order. There is no recall if d and d'
        differ.
    units : of the places; intervals are over these.
    centred : whether the mean of each sensor is subtracted first: a shift between sensors alone then costs nothing.
    """
    first, second = (np.asarray(one, np.float64) for one in (first, second))
    found = []
    if first.shape == second.shape:
        scaled = [
            _directions(one - one.mean(axis=0) if centred else one) for one in (first, second)
        ]
        for direction, (queries, gallery) in {"a to b": scaled, "b to a": scaled[::-1]}.items():
            hits = np.array([*_hits(queries, gallery, ks)])
            for k, own in zip(ks, hits.T, strict=True):
                value, by_chance = float(own.mean()), min(k / len(own), 1.0)
                lower, upper = recall_interval(own, units, confidence)
                found.append(Agreement(f"recall@{k}", direction, value, lower, upper, by_chance))
    found.append(_cka(first, second, units, confidence, seed))
    return found


def recall_interval(hits: np.ndarray, units: Units, confidence: float) -> tuple[float, float]:
    """Wilson's interval of the mean of (N,) hits in [0, 1], with the standard error over units; NaN for one unit."""
    if units.count < 2:
        return math.nan, math.nan
    value = float(hits.mean())
    if units.kind == "image" and np.isin(hits, (0, 1)).all():
        return share_interval(value, len(hits), confidence)
    sizes = np.bincount(units.index)
    without = (hits.sum() - np.bincount(units.index, hits)) / (len(hits) - sizes)
    spread = spread_of(value, without, sizes)
    error = float(spread.error)
    if error == 0:
        # the units do not vary
        return wilson_interval(value, units.count, float(t_quantile(confidence, units.count - 1)))
    size = value * (1 - value) / error**2
    return wilson_interval(value, size, float(t_quantile(confidence, spread.df)))


def _directions(features: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of zeros stay so."""
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.divide(features, length, out=np.zeros_like(features), where=length > 0)


def _hits(queries: np.ndarray, gallery: np.ndarray, ks: Sequence[int]) -> Iterator[list[float]]:
    """Of each place, the chance that it is among the k nearest if equally near ones are in random order."""
    step = max(1, _BLOCK_BYTES // (8 * len(gallery)))
    for start in range(0, len(queries), step):
        near = np.round(queries[start : start + step] @ gallery.T, _PLACES)
        own = near[np.arange(len(near)), start + np.arange(len(near))][:, None]
        nearer, equal = (near > own).sum(axis=1), (near == own).sum(axis=1)
        for before, alike in zip(nearer.tolist(), equal.tolist(), strict=True):
            yield [min(max((k - before) / alike, 0.0), 1.0) for k in ks]


def _cka(
    first: np.ndarray, second: np.ndarray, units: Units, confidence: float, seed: int
) -> Agreement:
    prepared = side(first, units=units.index)
    bootstrap = {"resamples": 1, "confidence": confidence, "seed": seed}
    value = debiased_cka(prepared, side(second, units=units.index))
    (row,) = measured({"cka": value}, units, bootstrap, dataset="").values()
    rng = np.random.default_rng(seed)
    shuffled = [
        debiased_cka(prepared, side(second[rng.permutation(len(second))], units=units.index)).value
        for _ in range(_SHUFFLES if math.isfinite(value.value) else 0)
    ]
    chance = float(np.mean(shuffled)) if shuffled else math.nan
    return Agreement("cka", None, row["value"], row["lower"], row["upper"], chance)
