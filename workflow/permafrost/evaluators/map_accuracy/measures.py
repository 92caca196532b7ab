"""Measures of agreement of a map with its reference, and how each changes with the shares of area.

All are functions of P, (K, K) shares of the area, rows the reference and columns the map, which sum to 1. With row sums
r_k (true share of class k) and column sums m_k (mapped share)::

    overall_accuracy          sum_k P_kk
    users_accuracy            P_kk / m_k         precision; 1 - commission error
    producers_accuracy        P_kk / r_k         recall; 1 - omission error
    f1                        2 P_kk / (m_k + r_k); mean_f1 is its mean over the classes that occur
    area_share                r_k
    quantity_disagreement     |r_k - m_k|, overall half of the sum
    allocation_disagreement   2 min(r_k, m_k) - 2 P_kk, overall half of the sum
    exchange                  2 sum_{j != k} min(P_jk, P_kj), overall half of the sum
    shift                     allocation_disagreement - exchange
    kappa                     (overall_accuracy - c) / (1 - c) with c = sum_k r_k m_k

Quantity and allocation disagreement add up to 1 - overall_accuracy (Pontius and Millones, Death to Kappa, 2011);
exchange and shift to the allocation disagreement (Pontius and Santacruz, Quantity, exchange, and shift components of
difference, 2014). The R package diffeR has them by these names. At a kink, where two shares are equal, the derivative
is that of one side: the mean of both would be 0, as if a difference had no error.
"""

from __future__ import annotations

import numpy as np

from permafrost.metrics.ratios import divide, mean_of_defined

Name = tuple[str, str | None]  # metric, class (None: overall)
#: of a class and overall
QUANTITY, SHIFT = "quantity_disagreement", "shift"
DISAGREEMENTS = (QUANTITY, "allocation_disagreement", "exchange", SHIFT)
#: metrics whose standard error is that of a ratio or a mean, so that their interval is normal
PLAIN = ("overall_accuracy", "users_accuracy", "producers_accuracy", "f1", "area_share")
KAPPA = "kappa"


def measures(shares, names: tuple[str, ...]) -> dict[Name, np.ndarray]:
    """Every measure by metric and class; NaN if undefined.

    Parameters
    ----------
    shares : (…, K, K), see the module.
    names : (K,) of the classes.

    Returns
    -------
    (…) float64 each.
    """
    shares = np.asarray(shares, np.float64)
    right = np.diagonal(shares, axis1=-2, axis2=-1)
    true, mapped = shares.sum(axis=-1), shares.sum(axis=-2)
    mutual = np.minimum(shares, np.swapaxes(shares, -1, -2)).sum(axis=-1) - right
    each = {
        "users_accuracy": divide(right, mapped),
        "producers_accuracy": divide(right, true),
        "f1": divide(2 * right, true + mapped),
        "area_share": true,
        "quantity_disagreement": np.abs(true - mapped),
        "allocation_disagreement": 2 * (np.minimum(true, mapped) - right),
        "exchange": 2 * mutual,
    }
    each["shift"] = each["allocation_disagreement"] - each["exchange"]
    accuracy, chance = right.sum(axis=-1), (true * mapped).sum(axis=-1)
    found: dict[Name, np.ndarray] = {
        ("overall_accuracy", None): accuracy,
        ("mean_f1", None): mean_of_defined(np.moveaxis(each["f1"], -1, 0)),
        **{(name, None): each[name].sum(axis=-1) / 2 for name in DISAGREEMENTS},
        (KAPPA, None): divide(accuracy - chance, 1 - chance),
    }
    for metric, values in each.items():
        found.update({(metric, name): values[..., place] for place, name in enumerate(names)})
    return found


def slopes(shares: np.ndarray, names: tuple[str, ...]) -> dict[Name, np.ndarray]:
    """(K, K) derivatives of every measure with respect to P, at (K, K) `shares`."""
    size = len(names)
    true, mapped, right = shares.sum(axis=1), shares.sum(axis=0), np.diagonal(shares)
    own = np.zeros((size, size, size))
    own[range(size), range(size), range(size)] = 1
    rows = np.broadcast_to(np.eye(size)[:, :, None], own.shape)
    columns = np.broadcast_to(np.eye(size)[:, None, :], own.shape)

    def ratio(above, top, below, bottom):
        return divide(above - divide(top, bottom)[:, None, None] * below, bottom[:, None, None])

    lower = (true < mapped).astype(np.float64)[:, None, None]
    # of two equal cells, the one above the diagonal
    equal = np.triu(shares == shares.T)
    smaller = ((shares < shares.T) | equal).astype(np.float64)
    each = {
        "users_accuracy": ratio(own, right, columns, mapped),
        "producers_accuracy": ratio(own, right, rows, true),
        "f1": ratio(2 * own, 2 * right, rows + columns, true + mapped),
        "area_share": rows,
        "quantity_disagreement": (1 - 2 * lower) * (rows - columns),
        "allocation_disagreement": 2 * (lower * rows + (1 - lower) * columns - own),
        "exchange": 2 * (rows + columns - 2 * own) * smaller,
    }
    each["shift"] = each["allocation_disagreement"] - each["exchange"]
    accuracy, chance = float(right.sum()), float(true @ mapped)
    of_chance = mapped[:, None] + true[None, :]
    of_kappa = np.eye(size) * (1 - chance) - (1 - accuracy) * of_chance
    found: dict[Name, np.ndarray] = {
        ("overall_accuracy", None): np.eye(size),
        ("mean_f1", None): mean_of_defined(each["f1"]),
        **{(name, None): each[name].sum(axis=0) / 2 for name in DISAGREEMENTS},
        (KAPPA, None): divide(of_kappa, (1 - chance) ** 2),
    }
    for metric, values in each.items():
        found.update({(metric, name): values[place] for place, name in enumerate(names)})
    return found
