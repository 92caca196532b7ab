"""Measures of the spectrum of features: how many directions they use, and how evenly.

There are two spectra: the *centred* one has the eigenvalues of the covariance, the *uncentred* one
those of the second moments about zero. One product of matrices gives both matrices, and each is
decomposed once for all its measures. With fewer rows than dimensions the (N, N) product is used
instead, so memory is O(N d + min(N, d)^2).

The effect of a row x on an eigenvalue l_j with eigenvector v_j is ((v_j' x)^2 - l_j) / N, so
projections give every row's effect on every function of the spectrum
(first-order perturbation; Magnus, Econometric Theory 1 (1985)). This needs distinct eigenvalues:
if the largest eigenvalues are equal, the intervals of `nesum` and `stable_rank` are too narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.points import Points

RANKME_EPSILON = 1e-7
# first and last rank of the eigenvalues, from 1, for the fit of the power law
ALPHA_RANKS = (12, 100)
_FEWEST_RANKS = 10
LPCA_SHARE = 0.05
# eigenvalues below this share of the largest are recomputed among themselves
_SMALL = 1e-8


@dataclass(frozen=True)
class Spectrum:
    """A decomposed (N, d) matrix of features.

    Attributes
    ----------
    values : (R,) descending eigenvalues of the second moments, R = min(N, d); never negative.
    directions : (d, R) eigenvectors.
    shift : (d,) vector added to the centred features: zero, or their mean.
    points : the features.
    """

    values: np.ndarray
    directions: np.ndarray
    shift: np.ndarray
    points: Points

    @property
    def rank(self) -> int:
        """Number of eigenvalues that are not zero up to rounding."""
        return int(np.count_nonzero(self.values > self.tolerance))

    @property
    def tolerance(self) -> float:
        """Eigenvalues up to this are rounding errors, as in numpy's ``matrix_rank`` (of singular values)."""
        largest = max(len(self.points), self.points.values.shape[1])
        return float(self.values[0]) * (largest * np.finfo(np.float64).eps) ** 2

    @cached_property
    def _moves(self) -> np.ndarray:
        """(N, R) first-order effect of each row on each eigenvalue, times N."""
        moves = (self.points.values + self.shift) @ self.directions
        np.square(moves, out=moves)
        moves -= self.values
        return moves

    def terms(self, gradients: np.ndarray) -> np.ndarray:
        """(U, F) effects of units on functions with the (R, F) derivatives `gradients` in the values."""
        points = self.points
        effects = self._moves @ gradients / len(points)
        return terms_by_unit(effects, points.units, points.n_units)


def decompose(points: Points, *, centred: bool, gram: np.ndarray | None = None) -> Spectrum:
    """Compute the centred or the uncentred spectrum.

    Parameters
    ----------
    gram : result of `gram_of` for the points, to share it between both spectra.
    """
    gram = gram_of(points) if gram is None else gram
    rows, dimensions = points.values.shape
    shift = np.zeros(dimensions) if centred else points.mean
    wide = dimensions > rows
    if not centred:
        offsets = points.values @ points.mean if wide else points.mean
        gram = gram + (
            offsets[:, None] + offsets + points.mean @ points.mean
            if wide
            else rows * np.outer(offsets, offsets)
        )
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if wide:
        directions = _directions(points.values + shift, vectors)
    else:
        directions = vectors
    values, directions = _settle_small(points, shift, values, directions)
    return Spectrum(values / rows, directions, shift, points)


def gram_of(points: Points) -> np.ndarray:
    """The (d, d) product of the centred features, or (N, N) with fewer rows than dimensions."""
    values = points.values
    return values @ values.T if values.shape[1] > len(values) else values.T @ values


def rankme_of(spectrum: Spectrum) -> Measure:
    """RankMe: exp of the entropy of the singular values' shares, for uncentred features.

    exp(-sum p log p) with p = s / sum(s) + 1e-7. From 1 to min(N, d), or slightly above due to the
    1e-7. Units: dimensions. Undefined if all features are zero.
    Source: Garrido et al., ICML 2023.
    """
    values = spectrum.values
    singular = np.sqrt(values)
    total = singular.sum()
    shares = singular / total + RANKME_EPSILON
    slopes = np.log(shares) + 1.0
    by_singular = (slopes @ singular / total - slopes) / total
    gradient = np.divide(by_singular, 2 * singular, out=np.zeros_like(values), where=singular > 0)
    return _measure(spectrum, np.exp(-shares @ np.log(shares)), gradient)


def stable_rank_of(spectrum: Spectrum) -> Measure:
    """Stable rank: sum of the squared singular values over the largest, for uncentred features.

    From 1 to min(N, d). Units: dimensions. Undefined if all features are zero.
    Source: Rudelson and Vershynin, J. ACM 54 (2007).
    """
    return _over_largest(spectrum)


def nesum_of(spectrum: Spectrum) -> Measure:
    """NESum: sum of the eigenvalues of the covariance over the largest.

    From 1 to min(N - 1, d). Units: dimensions. Undefined if all rows are equal.
    Source: He and Ozay, Exploring the Gap between Collapsed and Whitened Features, ICML 2022.
    """
    return _over_largest(spectrum)


def participation_ratio_of(spectrum: Spectrum) -> Measure:
    """Participation ratio: (sum of the covariance's eigenvalues)^2 over the sum of their squares.

    From 1 to min(N - 1, d). Units: dimensions. Undefined if all rows are equal.
    Source: Gao et al., bioRxiv 214262 (2017).
    """
    values = spectrum.values
    total, squares = values.sum(), values @ values
    return _measure(spectrum, total**2 / squares, 2.0 / total - 2.0 * values / squares)


def alpha_req_of(spectrum: Spectrum) -> Measure:
    """alpha-ReQ: exponent of the power-law decay of the covariance's eigenvalues with their rank.

    Minus the slope of log l_j on log j, over the ranks 12 to 100, rank j weighted by 1 / j: the
    range and the weights of the published code, which are those of Stringer et al., Nature 571
    (2019). The authors consider values near 1 as good; larger means a faster decay. Units: none.
    If fewer than 100 eigenvalues differ from zero, the range ends at the last (note
    ``range_end``), and the value is not comparable with others. Undefined with fewer than 10 ranks.
    Source: Agrawal et al., NeurIPS 2022.
    """
    first, last = ALPHA_RANKS
    end, notes = min(last, spectrum.rank), spectrum.points.notes()
    if end < last:
        notes["range_end"] = end
    if end - first + 1 < _FEWEST_RANKS:
        needed = first + _FEWEST_RANKS - 1
        reason = f"{spectrum.rank} eigenvalues differ from zero, {needed} are needed"
        return undefined(reason, notes)
    ranks = np.arange(first, end + 1)
    weights = 1.0 / ranks
    logs = np.log(ranks)
    centred = logs - weights @ logs / weights.sum()
    pull = weights * centred / (weights @ centred**2)
    values = spectrum.values[first - 1 : end]
    gradient = np.zeros(len(spectrum.values))
    gradient[first - 1 : end] = -pull / values
    terms = spectrum.terms(gradient[:, None])
    return Measure(float(-pull @ np.log(values)), notes, terms)


def lpca_of(spectrum: Spectrum) -> Measure:
    """lPCA: number of the covariance's eigenvalues above 0.05 times the largest.

    An integer from 1 to min(N - 1, d). Units: dimensions. Undefined if all rows are equal.
    Source: Fukunaga and Olsen, IEEE Trans. Comput. C-20 (1971); scikit-dimension's ``lPCA`` and its
    default threshold.

    Its terms are the effects on log(l_j / l_1) of eigenvalues close to the threshold.
    """
    values = spectrum.values
    shares = values / values[0]
    # resampling never changes an eigenvalue by a factor of 8
    close = np.flatnonzero((shares > LPCA_SHARE / 8) & (shares < LPCA_SHARE * 8) & (shares < 1.0))
    gradients = np.zeros((len(values), len(close)))
    gradients[close, np.arange(len(close))] = 1.0 / values[close]
    gradients[0] = -1.0 / values[0]
    return Measure(
        float(np.count_nonzero(shares > LPCA_SHARE)),
        spectrum.points.notes(),
        spectrum.terms(gradients),
        "count",
        np.log(shares[close] / LPCA_SHARE),
    )


def _over_largest(spectrum: Spectrum) -> Measure:
    values = spectrum.values
    gradient = np.full(len(values), 1.0 / values.sum())
    gradient[0] -= 1.0 / values[0]
    return _measure(spectrum, values.sum() / values[0], gradient)


def _measure(spectrum: Spectrum, value: float, log_gradient: np.ndarray) -> Measure:
    terms = spectrum.terms(log_gradient[:, None])
    return Measure(float(value), spectrum.points.notes(), terms, "log")


def spectral(
    points: Points, chosen: list[Callable[[Spectrum], Measure]], *, centred: bool, gram=None
) -> list[Measure]:
    """Several measures of one spectrum; decomposes it once, or not at all if none is chosen."""
    if points.collapsed if centred else not points.lengths.any():
        reason = "all rows are equal" if centred else "all features are zero"
        return [undefined(reason, points.notes())] * len(chosen)
    spectrum = decompose(points, centred=centred, gram=gram)
    return [measure(spectrum) for measure in chosen]


def _directions(whole: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(d, N) eigenvectors in the space of features, from those of the (N, N) product.

    They are scaled by their computed lengths, since small eigenvalues have rounding errors, even below zero.
    """
    columns = whole.T @ vectors
    lengths = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    return np.divide(columns, lengths, out=np.zeros_like(columns), where=lengths > 0)


def _settle_small(points: Points, shift: np.ndarray, values, directions):
    """Recompute small eigenvalues from the features projected on their directions.

    The error of a small eigenvalue is about 1e-16 times the largest l, so the error of its square
    root, which RankMe sums, is 1e-8 sqrt(l). Projected features have no large eigenvalues.
    """
    small = values < _SMALL * values[0]
    if not small.any():
        return values, directions
    basis = np.linalg.qr(directions[:, small])[0]
    # remove the large directions that rounding left in the small ones
    large = directions[:, ~small]
    basis = np.linalg.qr(basis - large @ (large.T @ basis))[0]
    part = (points.values + shift) @ basis
    again, vectors = np.linalg.eigh(part.T @ part)
    values, directions = values.copy(), directions.copy()
    values[small] = np.maximum(again[::-1], 0.0)
    directions[:, small] = basis @ vectors[:, ::-1]
    return values, directions
