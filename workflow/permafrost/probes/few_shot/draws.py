"""Small training sets: nested random draws of train and validation, by share or by number per class.

A draw is one random order of train and one of validation. A share of p takes the first p of both
orders, so that classes have their natural frequencies and rare ones may be absent; n per class takes the first n
of each class. So within a draw a smaller set is part of every larger one of its kind, which reduces the random
variation along a curve.
Validation shrinks like train: with few labels there are also few to choose settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Size:
    """A share of the training set, or a number of samples per class: one of the two."""

    share: float | None = None
    per_class: int | None = None

    @property
    def name(self) -> str:
        """``10 %``, ``5 per class``."""
        return (
            f"{100 * self.share:g} %" if self.per_class is None else f"{self.per_class} per class"
        )


@dataclass(frozen=True)
class Draw:
    """One draw of a training set: ascending row numbers of train and of validation."""

    size: Size
    number: int
    train: np.ndarray
    val: np.ndarray


def sizes_of(shares: list[float], per_class: list[int]) -> list[Size]:
    """All sizes, ascending, shares first."""
    return [Size(share=share) for share in sorted(shares)] + [
        Size(per_class=count) for count in sorted(per_class)
    ]


def nested_draws(
    train_y, val_y, sizes: list[Size], *, draws: int, n_classes: int, seed: int
) -> Iterator[Draw]:
    """Yield the draws, size by size; a size that takes all samples has one draw.

    Parameters
    ----------
    train_y, val_y : (N,) class ids, or (N, L) of 0 and 1.
    draws : number of draws; a larger number does not change the first ones.
    """
    orders = [_orders(len(train_y), len(val_y), seed, number) for number in range(draws)]
    ratio = len(val_y) / len(train_y)
    for size in sizes:
        for number, (train_order, val_order) in enumerate(orders):
            if size.per_class is None:
                train = train_order[: _part(size.share, len(train_y))]
                val = val_order[: _part(size.share, len(val_y))]
            else:
                train = _first_of_each(train_order, train_y, n_classes, size.per_class)
                fewer = max(1, _round(size.per_class * ratio))
                val = _first_of_each(val_order, val_y, n_classes, fewer)
            val = _with_a_label(val, val_order, val_y)
            yield Draw(size, number, np.sort(train), np.sort(val))
            if len(train) == len(train_y) and len(val) == len(val_y):
                break  # the next draw would be the same


def _orders(n_train: int, n_val: int, seed: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.Generator(np.random.PCG64([seed, number]))
    return generator.permutation(n_train), generator.permutation(n_val)


def _part(share: float, count: int) -> int:
    return min(count, max(1, _round(share * count)))


def _round(value: float) -> int:
    """The nearest integer, halves upwards; tolerates rounding errors of decimal shares (0.07 * 100 is 7)."""
    return math.floor(value + 0.5 + 1e-9)


def _first_of_each(order: np.ndarray, labels, n_classes: int, count: int) -> np.ndarray:
    """The first `count` rows of every class in `order`; all rows of a class with fewer."""
    labels = np.asarray(labels)[order]
    chosen = np.zeros(len(order), bool)
    for label in range(n_classes):
        has = labels[:, label] != 0 if labels.ndim == 2 else labels == label
        chosen[np.flatnonzero(has)[:count]] = True
    return order[chosen]


def _with_a_label(rows: np.ndarray, order: np.ndarray, labels) -> np.ndarray:
    """`rows`, plus the first labelled row if none of them has a label, as is possible for multi-label
    data: no setting could be chosen on them."""
    labels = np.asarray(labels)
    if labels.ndim == 1 or labels[rows].any() or not labels.any():
        return rows
    first = order[np.flatnonzero(labels[order].any(axis=1))[0]]
    return np.append(rows, first)
