"""Area-weighted accuracy and areas, with standard errors, from a sample of reference pixels.

The stratified estimators of Olofsson et al. (2014), "Good practices for estimating area and
assessing accuracy of land change", Remote Sensing of Environment 148, equations 1 to 11. The strata
are the map's classes. The sample is stratified random, or simple random or systematic with
poststratification. W_i is the mapped share of class i, n_ij the number of sampled pixels with map
class i and reference class j, and n_i their sum over j:

    p_ij = W_i n_ij / n_i                                    area mapped as i and truly j
    O    = sum_i p_ii                                        overall accuracy
    U_i  = p_ii / sum_j p_ij,     P_j = p_jj / sum_i p_ij    user's and producer's accuracy
    A_j  = sum_i p_ij                                        share of the area truly of class j
    V(O)   = sum_i W_i^2 U_i (1 - U_i) / (n_i - 1)
    V(U_i) = U_i (1 - U_i) / (n_i - 1)
    V(P_j) = [W_j^2 (1 - P_j)^2 U_j (1 - U_j) / (n_j - 1)
              + P_j^2 sum_{i != j} W_i^2 (n_ij / n_i) (1 - n_ij / n_i) / (n_i - 1)] / A_j^2
    V(A_j) = sum_i (W_i p_ij - p_ij^2) / (n_i - 1)

Counting the map's pixels instead (A_j = W_j) is biased by the map's errors.

If pixels differ in area, as in degrees, W_i are shares of the true area. The share n_ij / n_i
becomes a ratio of sums over the sampled pixels k of their areas a_k, with y_k 1 or 0. Its variance
is linearised as for any ratio r_ij (Cochran, Sampling Techniques, 1977, section 6.3):

    r_ij = sum_k a_k y_k / sum_k a_k
    V(r_ij) = n_i / (n_i - 1) sum_k a_k^2 (y_k - r_ij)^2 / (sum_k a_k)^2

With equal areas these are n_ij / n_i and r_ij (1 - r_ij) / (n_i - 1), the terms of the variances
above. Within a class all pixels are assumed to be drawn with equal probability, whatever their
area.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.ratios import divide


@dataclass(frozen=True)
class AreaEstimates:
    """Estimates and their standard errors, (K,) each; overall accuracy is a scalar.

    ``area`` is a share of the map. Undefined values are NaN, such as the user's accuracy of a class
    that is not mapped, and standard errors that depend on a class with a single sampled pixel.
    """

    overall_accuracy: float
    overall_accuracy_se: float
    users_accuracy: np.ndarray
    users_accuracy_se: np.ndarray
    producers_accuracy: np.ndarray
    producers_accuracy_se: np.ndarray
    area: np.ndarray
    area_se: np.ndarray

    def interval(self, name: str, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Normal interval of the estimate `name`; it may exceed [0, 1], as published."""
        half = NormalDist().inv_cdf((1 + confidence) / 2) * getattr(self, f"{name}_se")
        return getattr(self, name) - half, getattr(self, name) + half


def area_estimates(counts, mapped, area_sums=None) -> AreaEstimates:
    """Estimates from sampled pixels and the map's areas.

    Parameters
    ----------
    counts : (K, K) sampled pixels, rows the reference and columns the map.
    mapped : (K,) pixels (or area) of each class in the whole map.
    area_sums : (2, K, K) sums of the areas of the sampled pixels, and of their squares, in the
        layout of `counts`; None if all pixels have the same area. With it, `mapped` is area too.

    Raises
    ------
    PermafrostError : shapes that do not fit; a mapped class without a sampled pixel, or the
        reverse.
    """
    sample = np.asarray(counts, np.float64).T  # rows are the map, as in the paper
    mapped = np.asarray(mapped, np.float64)
    if sample.ndim != 2 or sample.shape != (len(mapped),) * 2 or not mapped.sum() > 0:
        raise PermafrostError(
            f"counts of the shape {sample.shape} and {mapped.size} mapped areas do not fit"
        )
    sizes = sample.sum(axis=1)
    if ((sizes > 0) != (mapped > 0)).any():
        odd = np.flatnonzero((sizes > 0) != (mapped > 0)).tolist()
        raise PermafrostError(
            f"the classes {odd} are mapped but not sampled, or sampled but not mapped",
            remedy="sample every mapped class",
        )
    used = mapped > 0
    weight = mapped / mapped.sum()
    share, spread = _shares(sample, area_sums)
    joint = weight[:, None] * share
    area = joint.sum(axis=0)
    users = np.where(used, np.diagonal(share), np.nan)
    producers = divide(np.diagonal(joint), area)
    spread[~used] = 0.0
    weighted = weight[:, None] ** 2 * spread
    own = np.diagonal(weighted)
    others = weighted.sum(axis=0) - own
    of_producers = divide((1 - producers) ** 2 * own + producers**2 * others, area**2)
    return AreaEstimates(
        overall_accuracy=float(np.trace(joint)),
        overall_accuracy_se=float(np.sqrt(own.sum())),
        users_accuracy=users,
        users_accuracy_se=np.where(used, np.sqrt(np.diagonal(spread)), np.nan),
        producers_accuracy=producers,
        producers_accuracy_se=np.sqrt(of_producers),
        area=area,
        area_se=np.sqrt(weighted.sum(axis=0)),
    )


def _shares(sample: np.ndarray, area_sums) -> tuple[np.ndarray, np.ndarray]:
    """(K, K) shares of the true classes within each mapped one, and their variances; rows the map.

    The variance from a single pixel is undefined.
    """
    sizes = sample.sum(axis=1, keepdims=True)
    if area_sums is None:
        share = divide(sample, sizes, undefined=0.0)
        return share, divide(share * (1 - share), sizes - 1)
    areas, squares = np.swapaxes(np.asarray(area_sums, np.float64), 1, 2)
    total = areas.sum(axis=1, keepdims=True)
    share = divide(areas, total, undefined=0.0)
    every = squares.sum(axis=1, keepdims=True)
    # sum of a^2 (y - r)^2, with y = 1 for the pixels of one true class
    deviations = squares * (1 - share) ** 2 + (every - squares) * share**2
    return share, divide(sizes * divide(deviations, total**2), sizes - 1)
