"""Debiased linear CKA: how alike two backbones see the same images.

    CKA = HSIC(X, Y) / sqrt(HSIC(X, X) HSIC(Y, Y))

with the unbiased estimator of HSIC (Song et al., JMLR 13 (2012)) for linear kernels. Its three sums
need no kernel matrix. With centred rows x_i, y_i, squared lengths k_i, l_i and S = sum_i x_i y_i'

    n (n - 3) HSIC = |S|^2 - n / (n - 2) sum k_i l_i + sum k_i sum l_i / ((n - 1) (n - 2))

so a pair costs O(n d^2) time and O(d^2) memory beyond the features. |S|^2 is also the inner product
of the two (n, n) Gram matrices, which is less to hold and to compute where d > n.
Source: Kornblith et al., ICML 2019; the debiased form in Nguyen et al., ICLR 2021. The biased form
tends to 1 for any features whose dimensions outnumber the rows, and is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.points import Points, as_points

FEWEST_ROWS = 5
# bytes of prepared backbones that a matrix keeps; beyond, they are loaded again
KEPT_BYTES = 2 << 30


@dataclass(frozen=True)
class Side:
    """What one backbone brings to all its pairs.

    Attributes
    ----------
    points : its (n, d) features.
    norms : (n,) squared lengths of the centred rows.
    gram : (n, n) their products where d > n, else None.
    hsic, hsic_without : HSIC(X, X), and (n,) the same without each row; both times a factor.
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
    """Prepare (n, d) features; `units` as for all measures."""
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

    At most about 1, which it is for features equal up to rotation and scale; near 0, also below,
    for independent ones. Units: none. Either may be a `side`. Undefined for fewer than 5 rows and
    where the features of either do not vary. Its terms are exact delete-one differences of rows.
    """
    first = first if isinstance(first, Side) else side(first, units=units)
    second = second if isinstance(second, Side) else side(second, units=units)
    rows = len(first.points)
    if rows != len(second.points):
        raise PermafrostError(
            f"CKA of {rows} and {len(second.points)} rows",
            remedy="compare backbones on the same rows of the same dataset",
        )
    notes = {"rows": rows}
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
    """CKA of every pair of backbones, each pair once, in the order of the names given.

    Parameters
    ----------
    loaders : backbone to a function that gives its (n, d) features, the same rows for all.
    kept_bytes : prepared backbones are kept up to this and loaded again beyond it, so memory does
        not grow with their number.
    """
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

    With K, L the Gram matrices without their diagonals, the estimator is made of sum K L, of the
    sums of all K and of all L, and of the product of their row sums; a row leaves each of them in
    closed form. Rows are centred by the mean of all, which HSIC does not depend on.
    """
    k, m, rows = first.norms, second.norms, len(first.norms)
    x, y = first.points.values, second.points.values
    if first.gram is not None and second.gram is not None:
        shared = np.einsum("ij,ij->i", first.gram, second.gram)
    else:
        shared = np.einsum("ij,ij->i", x @ (x.T @ y), y)
    products = k * m
    # sum over j of K_ij L_ij; row sums of K and L are -k and -m, as centred rows add up to zero
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
