"""A measure of features: its value, notes, and values on resamples.

Resampling with replacement duplicates rows, which gives neighbours at distance zero, pairs
of positives that are one image, and a sample covariance of lower rank. This biases all measures
here, so they are never evaluated on such resamples. Instead each measure keeps
the effect of every independent unit on its value, its *terms*

    T_u = d g(value) / d w_u    at w = 1

the derivative of the value in the weight of unit u (or the change when the unit is omitted, for measures
of neighbours, which have no derivative), on a scale g on which the value is unbounded. On a resample
that draws unit u w_u times, the value is to first order

    g(value*) = g(value) + sum_u (w_u - 1) T_u

This is the infinitesimal jackknife (Efron, The Jackknife, the Bootstrap and Other Resampling
Plans, 1982, chapter 6; Davison and Hinkley, Bootstrap Methods and their Application, 1997, section
2.7.4); its variance is the sum of T_u^2. One product of matrices gives all resamples, and all
backbones use the same counts, so their differences are paired.

In simulations (300 rows of a mixture in 40 and in 400 dimensions) the standard errors were 0.9 to
1.4 times the true ones, and larger for measures of neighbours (see `intrinsic_dimension`).
Such an interval covers the expected value of the measure *at this number of rows*: most of
these measures still grow with the number of rows, which no resampling shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

# units whose counts are converted to floats at once
_UNITS_TOGETHER = 4096


@dataclass(frozen=True)
class Measure:
    """One measure of one set of features.

    Attributes
    ----------
    value : the measure; NaN if undefined.
    notes : JSON-able. ``undefined`` is the reason for a missing value, ``flag`` a reason for doubt;
        the others are counts: ``rows`` measured, ``drawn_from`` this many, ``duplicates``
        (rows equal to an earlier one), ``zero_rows`` (rows without a direction), ``singletons``
        (classes of one row), ``zero_distances``, ``short_lists``, ``range_end``.
    terms : (U, J) effects of the U units on the value, or None if undefined.
    scale : ``linear``, ``log`` (J = 1) or ``count``: the value is the number of quantities above
        zero, of which `margins` are the J nearest to zero.
    margins : (J,) for ``count``.
    """

    value: float
    notes: dict = field(default_factory=dict)
    terms: np.ndarray | None = None
    scale: str = "linear"
    margins: np.ndarray | None = None

    def replicates(self, counts) -> np.ndarray:
        """(B,) values on resamples.

        Parameters
        ----------
        counts : (U, B) how often each unit is in each resample. Undefined measures give NaN.
        """
        counts = np.asarray(counts)
        if self.terms is None:
            return np.full(counts.shape[1], np.nan)
        if len(counts) != len(self.terms):
            raise ValueError(f"counts of {len(counts)} units for {len(self.terms)}")
        moved = -self.terms.sum(axis=0)[:, None] + np.zeros((1, counts.shape[1]))
        for start in range(0, len(counts), _UNITS_TOGETHER):
            part = slice(start, start + _UNITS_TOGETHER)
            moved += self.terms[part].T @ counts[part].astype(np.float64)
        if self.scale == "count":
            above = np.count_nonzero(self.margins > 0)
            drawn = np.count_nonzero(self.margins[:, None] + moved > 0, axis=0)
            return self.value - above + drawn.astype(np.float64)
        return self.value * np.exp(moved[0]) if self.scale == "log" else self.value + moved[0]


def undefined(reason: str, notes: dict | None = None) -> Measure:
    """A measure without a value, with the reason."""
    return Measure(float("nan"), {**(notes or {}), "undefined": reason})


def terms_by_unit(effects: np.ndarray, units: np.ndarray, n_units: int) -> np.ndarray:
    """(U, J) sums of the (N,) or (N, J) effects of rows over each unit."""
    effects = effects.reshape(len(effects), -1)
    sums = np.empty((n_units, effects.shape[1]))
    for column, each in enumerate(effects.T):
        sums[:, column] = np.bincount(units, each, n_units)
    return sums
