"""What a sampling design makes of reference points: weights, and variances of weighted sums.

Every point u stands for the area w_u: A_h / n_h in a stratum of area A_h with n_h points, A / n in a simple random
sample, 1 / pi_u with the inclusion probability pi_u. With W = sum_u w_u, the share of the area with map class j and
reference class i is P_ij = sum of w_u / W over the points of that cell. A measure f(P) with derivatives g is
linearised,

    z_u = w_u / W (g_cell(u) - sum g P),   V(f) = sum_h n_h / (n_h - 1) sum_{u in h} (z_u - mean_h z)^2,

which is Olofsson et al. (2014, Remote Sensing of Environment 148), equations 5 to 7, 10 and 11, if the strata are the
map's classes, and Stehman (2014, International Journal of Remote Sensing 35) if they are not. With inclusion
probabilities it is the estimator of Hajek with the variance of sampling with replacement (Sarndal et al., Model
Assisted Survey Sampling, 1992, sections 2.9 and 5.7). Points of a group, such as a cluster, are added before.
Corrections for finite populations are left out, as in Olofsson et al.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.core.errors import PermafrostError

SIMPLE, STRATIFIED, PROBABILITIES = "simple", "stratified", "probabilities"
DESIGNS = (SIMPLE, STRATIFIED, PROBABILITIES)
# bytes of the numbers of draws that are summed at a time
_MOST_BYTES = 1 << 26


@dataclass(frozen=True)
class Design:
    """Weights and strata of n points.

    Attributes
    ----------
    weight : (n,) area that each point stands for, in any unit.
    stratum : (n,) index of its stratum.
    strata : (H,) names of the strata.
    unit : (n,) index of the independently drawn unit, a point or a group of points.
    column : (H,) index of the map class that a stratum is, or None: strata that are not the map's classes.
    """

    weight: np.ndarray
    stratum: np.ndarray
    strata: tuple[str, ...]
    unit: np.ndarray
    column: np.ndarray | None = None

    @cached_property
    def home(self) -> np.ndarray:
        """(U,) stratum of each unit."""
        home = np.zeros(int(self.unit.max(initial=-1)) + 1, np.intp)
        home[self.unit] = self.stratum
        if (home[self.unit] != self.stratum).any():
            raise PermafrostError(
                "a group has points in several strata",
                where="samples",
                remedy="name groups within strata",
            )
        return home

    @cached_property
    def sizes(self) -> np.ndarray:
        """(H,) number of units of each stratum."""
        return np.bincount(self.home, minlength=len(self.strata))

    @property
    def df(self) -> int:
        """Degrees of freedom: units minus strata."""
        return int(len(self.home) - np.count_nonzero(self.sizes))

    @property
    def single(self) -> list[str]:
        """Names of the strata with a single unit."""
        return [name for name, size in zip(self.strata, self.sizes, strict=True) if size == 1]

    def shares(self, cells: np.ndarray, size: int) -> np.ndarray:
        """(K, K) shares P of the area; `cells` (n,) are i K + j."""
        sums = np.bincount(cells, self.weight, minlength=size**2)
        return sums.reshape(size, size) / self.weight.sum()

    def influence(self, slope: np.ndarray, shares: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """(n,) z of the module, for (K, K) derivatives; NaN if they are."""
        centred = slope - np.sum(slope * shares)
        return self.weight / self.weight.sum() * centred.ravel()[cells]

    def error(self, influence: np.ndarray, slope: np.ndarray | None = None) -> float:
        """Standard error of a measure; NaN if a stratum with a single unit contributes to it.

        Such a stratum contributes nothing if it is a map class, and its column of the derivatives `slope` is constant.
        """
        sums = np.bincount(self.unit, influence, minlength=len(self.home))
        sizes = np.maximum(self.sizes, 1)
        mean = np.bincount(self.home, sums, minlength=len(sizes)) / sizes
        spread = np.bincount(self.home, (sums - mean[self.home]) ** 2, minlength=len(sizes))
        for place in np.flatnonzero(self.sizes == 1):
            fixed = self.column is not None and slope is not None
            if not fixed or np.ptp(slope[:, self.column[place]]) != 0:
                return float("nan")
        return float(np.sqrt(np.sum(spread * sizes / np.maximum(sizes - 1, 1))))

    def resampled(self, cells: np.ndarray, size: int, resamples: int, seed: int) -> np.ndarray:
        """(B, K, K) shares of resamples, drawn with replacement within strata."""
        from scipy.sparse import csr_array

        rng = np.random.default_rng(seed)
        table = csr_array((self.weight, (self.unit, cells)), shape=(len(self.home), size**2))
        members = [np.flatnonzero(self.home == place) for place in range(len(self.strata))]
        step = max(1, _MOST_BYTES // (8 * max(1, len(self.home))))
        parts = []
        for start in range(0, resamples, step):
            drawn = np.zeros((min(step, resamples - start), len(self.home)))
            for own in members:
                if len(own):
                    chance = np.full(len(own), 1 / len(own))
                    drawn[:, own] = rng.multinomial(len(own), chance, size=len(drawn))
            parts.append(drawn @ table)
        sums = np.concatenate([np.empty((0, size**2)), *parts])
        return (sums / sums.sum(axis=1, keepdims=True)).reshape(-1, size, size)


def make_design(
    kind: str,
    *,
    stratum: np.ndarray | None,
    areas: dict[str, float] | None,
    weight: np.ndarray | None,
    group: np.ndarray | None,
    count: int,
    column_of: dict[str, int] | None = None,
) -> Design:
    """The design of `count` points.

    Parameters
    ----------
    kind : one of `DESIGNS`.
    stratum, group : (n,) names, or None.
    areas : stratum -> area, for `STRATIFIED`.
    weight : (n,) above 0, for `PROBABILITIES`.
    column_of : stratum -> index of the map class that it is, if strata are map classes.

    Raises
    ------
    PermafrostError : a stratum without an area, an area without a point in it, an area that is not above 0.
    """
    names, place = (("all",), np.zeros(count, np.intp))
    if stratum is not None:
        different, place = np.unique(stratum.astype(str), return_inverse=True)
        names = tuple(different.tolist())
    weights = np.ones(count) if weight is None else weight
    if kind == STRATIFIED:
        sizes = np.bincount(place, minlength=len(names))
        weights = (_areas_of(names, areas) / sizes)[place]
    unit = np.arange(count)
    if group is not None:
        unit = np.unique(group.astype(str), return_inverse=True)[1]
    column = None
    if column_of is not None:
        column = np.array([column_of[name] for name in names])
    return Design(weights, place, names, unit, column)


def _areas_of(names: tuple[str, ...], areas: dict[str, float]) -> np.ndarray:
    lacking = [name for name in names if name not in areas]
    empty = [name for name, area in areas.items() if name not in names and area > 0]
    wrong = [name for name, area in areas.items() if not (np.isfinite(area) and area >= 0)]
    wrong += [name for name in names if areas.get(name) == 0]
    for found, problem, remedy in (
        (lacking, "the strata {} have no area", "give the area of every stratum of the samples"),
        (wrong, "the areas of the strata {} are not above 0", "correct the areas"),
        (
            empty,
            "the strata {} have an area but no sample",
            "sample every stratum, or join it with another; what has no sample cannot be estimated",
        ),
    ):
        if found:
            raise PermafrostError(
                problem.format(", ".join(map(repr, found[:8]))), where="strata", remedy=remedy
            )
    return np.array([areas[name] for name in names])
