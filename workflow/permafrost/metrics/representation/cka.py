"""Debiased linear CKA: similarity of two backbones' features of the same images.

    CKA = HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y))

with the unbiased estimator of HSIC (Song et al., JMLR 13 (2012)) for linear kernels. Its three sums
need no kernel matrix. With centred rows x_i, y_i, squared lengths k_i, l_i and S = sum_i x_i y_i'

    n (n - 3) HSIC = |S|^2 - n / (n - 2) sum k_i l_i + sum k_i sum l_i / ((n - 1) (n - 2))

so a pair costs O(n d^2) time and O(d^2) memory beyond the features. |S|^2 is also the inner product
of the two (n, n) Gram matrices, which are smaller and faster if d > n.
Source: Kornblith et al., ICML 2019; the debiased form in Nguyen et al., ICLR 2021. The biased form
is not available: it tends to 1 for any features with more dimensions than rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.points import Points, as_points

FEWEST_ROWS = 5
# bytes of prepared features kept in memory; other backbones are loaded again for each pair
KEPT_BYTES = 2 << 30


@dataclass(frozen=True)
class Side:
    """The data of one backbone that all its pairs share.

    Attributes
    ----------
    points : its (n, d) features.
    norms : (n,) squared lengths of the centred rows.
    gram : (n, n) inner products of the centred rows if d > n, else None.
    hsic, hsic_without : HSIC(X, X), and (n,) the same without each row; both times a constant factor.
    """

    points: Points
    norms: np.ndarray
    gram: np.ndarray | None
    hsic: float
    hsic_without: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.points.values.nbytes + (0 if self.gram is None else self.gram.nbytes)


def side(features, *, units=None) -> Side:
    """Prepare (n, d) features; `units` as in `points.as_points`."""
    points = as_points(features, units)
    values = points.values
    gram = values @ values.T if values.shape[1] > len(values) else None
    norms = np.einsum("ij,ij->i", values, values)
    bare = Side(points, norms, gram, 0.0, np.zeros(0))
    if len(points) < FEWEST_ROWS:
        return bare
    return Side(points, norms, gram, *_hsic(bare, bare))


def debiased_cka(first, second, *, units=None) -> Measure:
    """Debiased linear CKA of the (n, d) `first` and (n, d') `second` features of the same rows.

    About 1 at most, for features that are equal up to rotation and scale; near 0 (possibly negative)
    for independent ones. Units: none. Each argument may be a `side`. Undefined for fewer than 5 rows
    and for constant features. Its terms are exact delete-one differences of rows.
    """
    first = first if isinstance(first, Side) else side(first, units=units)
    second = second if isinstance(second, Side) else side(second, units=units)
    rows = len(first.points)
    if rows != len(second.points):
        raise PermafrostError(
            f"CKA of {rows} and {len(second.points)} rows",
            remedy="compare backbones on the same rows of the same dataset",
        )
    notes: dict[str, int | str] = {"rows": rows}
    if rows < FEWEST_ROWS:
        return undefined(f"fewer than {FEWEST_ROWS} rows", notes)
    if first.points.collapsed or second.points.collapsed:
        return undefined("all rows of one backbone are equal", notes)
    if not (first.hsic > 0 and second.hsic > 0):
        return undefined("the features of one backbone vary no more than by chance", notes)
    cross, without = _hsic(first, second)
    value = cross / np.sqrt(first.hsic * second.hsic)
    scale = first.hsic_without * second.hsic_without
    kept = scale > 0
    if not kept.all():
        notes["flag"] = f"undefined without {int(np.count_nonzero(~kept))} of the rows"
    left = np.divide(
        without, np.sqrt(np.where(kept, scale, 1.0)), where=kept, out=np.full(rows, value)
    )
    effects = (left.mean() - left) * ((rows - 1) / rows)
    points = first.points
    return Measure(float(value), notes, terms_by_unit(effects, points.units, points.n_units))


def cka_matrix(
    loaders: Mapping[str, Callable[[], np.ndarray]], *, units=None, kept_bytes: int = KEPT_BYTES
) -> dict[tuple[str, str], Measure]:
    """CKA of every pair of backbones, each pair once, in the order of `loaders`.

    Parameters
    ----------
    loaders : backbone to a function that returns its (n, d) features, the same rows for all.
    kept_bytes : prepared features are kept up to this size, others are loaded again, so memory does
        not grow with the number of backbones.
    """
    sides: dict[str, Side]
    names, kept, sides = list(loaders), 0, {}
    pairs = {}
    for place, name in enumerate(names):
        first = sides.pop(name, None) or side(loaders[name](), units=units)
        for other in names[place + 1 :]:
            second = sides.get(other)
            if second is None:
                second = side(loaders[other](), units=units)
                kept = sum(each.nbytes for each in sides.values())
                if kept + second.nbytes <= kept_bytes:
                    sides[other] = second
            pairs[name, other] = debiased_cka(first, second)
    return pairs


def _hsic(first: Side, second: Side) -> tuple[float, np.ndarray]:
    """Unbiased HSIC of all rows, and (n,) of all rows but one.

    With K, L the Gram matrices without their diagonals, the estimator depends on sum K L, the
    sums of K and of L, and the product of their row sums; each has a closed form without one
    row. Rows are centred by the mean of all rows, which does not change HSIC.
    """
    k, m, rows = first.norms, second.norms, len(first.norms)
    x, y = first.points.values, second.points.values
    if first.gram is not None and second.gram is not None:
        shared = np.einsum("ij,ij->i", first.gram, second.gram)
    else:
        shared = np.einsum("ij,ij->i", x @ (x.T @ y), y)
    products = k * m
    # sum over j of K_ij L_ij; row sums of K and L are -k and -m, since centred rows sum to zero
    paired = shared - products
    total = paired.sum()
    everything = _estimate(total, k.sum() * m.sum(), products.sum(), rows)
    k_of_l = x @ (x.T @ m) - products
    l_of_k = y @ (y.T @ k) - products
    crossed = products.sum() - products + k_of_l + l_of_k + paired
    sums = (-k.sum() + 2 * k) * (-m.sum() + 2 * m)
    return float(everything), _estimate(total - 2 * paired, sums, crossed, rows - 1)


def _estimate(paired, sums, crossed, rows: int):
    return (paired + sums / ((rows - 1) * (rows - 2)) - 2.0 / (rows - 2) * crossed) / (
        rows * (rows - 3)
    )
