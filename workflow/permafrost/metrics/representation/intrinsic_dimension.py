"""Intrinsic dimension from the distances to nearest neighbours: TwoNN and maximum likelihood.

Both depend only on ratios of distances, so they do not depend on scale. Units: dimensions.
Distances of zero are handled in two steps, and counted: equal rows are one point (note
``duplicates``), and a row whose nearest other point is still at distance zero, because the squares
of the differences underflow, is omitted (note ``zero_distances``).

The effect of a unit is the change when it is omitted: exact for `mle` (its rows are removed, and rows
with neighbours in it get their next ones) and to first order in the distribution of the ratios for
`two_nn`. This is a delete-one jackknife over units instead of a derivative; `measure` explains why
there is no bootstrap. The intervals are conservative, by a factor of 1.4 to 1.8 in simulations: removing
a row also changes its neighbours, and the jackknife counts such joint effects of rows twice (Efron
and Stein, Annals of Statistics 9 (1981)). Treating rows as independent gave intervals 0.7 to
0.85 times as wide as they should be, so the wide ones are kept. If more than half of the 40
kept neighbours of a row are in one other unit, its list is shorter than 20 without that
unit (note ``short_lists``).
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.representation.measure import Measure, undefined
from permafrost.metrics.representation.neighbours import Neighbours

# neighbours of the maximum-likelihood estimate
NEIGHBOURS = 20
# neighbours kept per row, so that its list stays full when a unit is omitted
KEPT = 2 * NEIGHBOURS
# share of the ratios, the largest, that TwoNN omits
DISCARDED = 0.1
_FEWEST = 10
# logarithms of distances that differ by less are equal up to rounding
_SAME = 1e-12


def two_nn_of(found: Neighbours, notes: dict) -> Measure:
    """TwoNN: slope through the origin of -log(1 - F(mu)) on log mu, mu = d_2 / d_1 of each row.

    F of the ratio of rank i (from 1) of R is i / R; the largest tenth of the ratios is omitted
    (as in ``TwoNN`` of scikit-dimension 0.5; earlier releases counted ranks from 0). At least 0. Needs 10 distinct
    rows; undefined if all ratios are 1. It underestimates dimensions above about 10.
    Source: Facco et al., Scientific Reports 7, 12140 (2017).
    """
    found, notes = _without_zeros(found, notes)
    rows = len(found.squared)
    if rows < _FEWEST or found.squared.shape[1] < 2:
        return undefined(f"fewer than {_FEWEST} distinct rows", notes)
    logs = 0.5 * np.log(found.squared)
    ratios = logs[:, 1] - logs[:, 0]
    ordered = np.sort(ratios)
    kept = int(rows * (1 - DISCARDED))
    heights = -np.log1p(-np.arange(1, kept + 1) / rows)
    square = float(ordered[:kept] @ ordered[:kept])
    if square <= kept * _SAME**2:
        return undefined("the two nearest rows are equally far everywhere", notes)
    value = float(ordered[:kept] @ heights) / square
    influence = _slope_influence(ordered, heights, value)
    influences = influence(ratios)
    terms = np.bincount(found.units, influences, found.n_units)
    for rank in (0, 1):
        rows_, units, keep = _losing(found, rank, 2)
        two = _first_kept(logs[rows_], keep, 2)
        moved = influence(two[:, 1] - two[:, 0]) - influences[rows_]
        # omitting the unit changes these rows' ratios; its effect is the opposite
        terms -= np.bincount(units, moved, found.n_units)
    return Measure(value, notes, terms[:, None] / rows, "log")


def mle_of(found: Neighbours, notes: dict) -> Measure:
    """Maximum likelihood from k = 20 neighbours: 1 / mean_i mean_(j < k) log(d_k / d_j).

    The mean over j has k - 1 terms; the rows' estimates are combined by their harmonic mean (MacKay
    and Ghahramani), as in scikit-dimension's ``MLE``. At least 0. Needs 21 distinct rows;
    undefined if every row is equally far from all its neighbours. Biased low in high
    dimensions. Source: Levina and Bickel, NIPS 2004.
    """
    found, notes = _without_zeros(found, notes)
    rows = len(found.squared)
    if rows <= NEIGHBOURS or found.squared.shape[1] < NEIGHBOURS:
        return undefined(f"fewer than {NEIGHBOURS + 1} distinct rows", notes)
    logs = 0.5 * np.log(found.squared)
    inverse = _inverse_dimension(logs[:, :NEIGHBOURS], np.full(rows, NEIGHBOURS))
    total = float(inverse.sum())
    if total <= rows * _SAME:
        return undefined("every row is equally far from its neighbours", notes)
    change = np.bincount(found.units, -inverse, found.n_units)
    gone = np.bincount(found.units, minlength=found.n_units)
    short = 0
    for rank in range(NEIGHBOURS):
        rows_, units, keep = _losing(found, rank, NEIGHBOURS)
        left = np.minimum(NEIGHBOURS, keep.sum(axis=1))
        short += int(np.count_nonzero(left < NEIGHBOURS))
        new = _inverse_dimension(_first_kept(logs[rows_], keep, NEIGHBOURS), left)
        change += np.bincount(units, new - inverse[rows_], found.n_units)
    if short:
        notes["short_lists"] = short
    remaining, mean = rows - gone, total + change
    alone = np.flatnonzero((remaining > 0) & (gone > 0) & (mean > 0))
    terms = np.zeros(found.n_units)
    # log of the value with all rows, minus its log without the unit
    terms[alone] = np.log(rows / total) - np.log(remaining[alone] / mean[alone])
    terms[alone] -= terms[alone].mean() if alone.size else 0.0
    return Measure(rows / total, notes, terms[:, None], "log")


def _without_zeros(found: Neighbours, notes: dict) -> tuple[Neighbours, dict]:
    """Omit rows whose nearest point is at distance zero."""
    if not found.squared.shape[1] or found.squared[:, 0].all():
        return found, dict(notes)
    kept = found.squared[:, 0] > 0
    notes = {**notes, "zero_distances": int(np.count_nonzero(~kept))}
    parts = (found.squared[kept], found.units[kept], found.neighbour_units[kept])
    return Neighbours(*parts, found.n_units), notes


def _losing(found: Neighbours, rank: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that lose neighbours when the unit of their neighbour of this rank is omitted.

    Rows of the omitted unit are not among them. A unit with several of the first k neighbours of a row
    counts at the first.

    Returns
    -------
    The rows, the unit that each loses, and (rows, M) bool: the neighbours that it keeps.
    """
    lists = found.neighbour_units
    unit = lists[:, rank]
    first = unit != found.units
    if rank:
        first &= (lists[:, :rank] != unit[:, None]).all(axis=1)
    rows = np.flatnonzero(first)
    keep = lists[rows] != unit[rows, None]
    # with fewer than two neighbours a row has no estimate; it keeps its former one
    enough = keep.sum(axis=1) >= 2
    return rows[enough], unit[rows[enough]], keep[enough]


def _first_kept(logs: np.ndarray, keep: np.ndarray, k: int) -> np.ndarray:
    """(n, k) the first k kept values of each row of (n, M); after the last kept one come dropped values."""
    order = np.argsort(~keep, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(logs, order, axis=1)


def _inverse_dimension(logs: np.ndarray, count: np.ndarray) -> np.ndarray:
    """(n,) mean over j < count of log(d_count / d_j), from (n, k) log distances."""
    used = np.arange(logs.shape[1]) < count[:, None]
    last = np.take_along_axis(logs, count[:, None] - 1, axis=1)
    return np.where(used, last - logs, 0.0).sum(axis=1) / (count - 1)


def _slope_influence(ordered: np.ndarray, heights: np.ndarray, value: float):
    """Influence of a ratio x on the log of the slope N / D, as a function of x.

    With L(p) = -log(1 - p), both are integrals over ranks p of the ratios x(p), up to 1 - DISCARDED:
    N of x L, D of x^2. Their influence functions are, up to a constant,

        -integral from x on of L(F(t)) dt    and    -integral from x on of 2 t dt

    over the ratios that are not omitted: a step function and a line, summed from the right.
    """
    kept = len(heights)
    knots = np.concatenate(([0.0], ordered[:kept]))
    top = ordered[kept] if kept < len(ordered) else ordered[-1]
    ends = np.append(ordered[:kept], top)
    steps = np.append(0.0, -np.log1p(-np.arange(1, kept + 1) / len(ordered)))
    tail = np.cumsum((steps * (ends - knots))[::-1])[::-1]
    knots, tail = np.append(knots, top), np.append(tail, 0.0)
    size = len(ordered)
    square, product = (ordered[:kept] @ each / size for each in (ordered[:kept], heights))

    def influence(x: np.ndarray) -> np.ndarray:
        x = np.minimum(x, top)
        rises = -np.interp(x, knots, tail) / product
        return rises + (top**2 - x**2) / square

    mean = float(influence(ordered).mean())
    return lambda x: influence(x) - mean
