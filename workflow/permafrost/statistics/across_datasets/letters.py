"""Backbones that are told apart, as letters and as sets of ranks.

Both begin with a matrix of pairs: whether the row's backbone is better than the column's beyond chance, at a level that
holds for all pairs together (`p_adjusted` of the comparisons on one dataset, `draws.told_apart` over datasets).
"""

from __future__ import annotations

import re

import numpy as np


def compact_letters(different, order=None) -> list[str]:
    """Letters of each of K backbones: two share a letter exactly where they are not told apart.

    Begins with one group of all. Each pair that differs splits the groups that hold both, and groups that lie
    within others are dropped (insert and absorb). So each group is as large as it can be.

    Parameters
    ----------
    different : (K, K) whether two are told apart; symmetric, or True where the row is better.
    order : indices, best first, by which letters are given: the first has an "a". Default: as they come.

    Source: Piepho, An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons (2004).
    """
    different = np.asarray(different, bool)
    different = different | different.T
    if np.any(np.diag(different)):
        raise ValueError("a backbone differs from itself")
    order = list(range(len(different)) if order is None else order)
    groups = [frozenset(order)]
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            if different[one, other]:
                groups = _split(groups, one, other)
    position = {backbone: place for place, backbone in enumerate(order)}
    groups.sort(key=lambda group: sorted(position[each] for each in group))
    return [
        "".join(_letter(number) for number, group in enumerate(groups) if backbone in group)
        for backbone in range(len(different))
    ]


def letters_in(text: str | None) -> set[str]:
    """The letters of a backbone one by one: ``{"a", "b'"}`` of ``ab'``; none of None."""
    return set(re.findall("[a-z]'*", text or ""))


def ranks_possible(better) -> np.ndarray:
    """(K, 2) smallest and largest rank of each backbone that the pairs told apart leave possible.

    1 + the number of those that are better, and K less the number of those that are worse. Where all pairs that are
    called better are so with 95 % confidence, all true ranks lie in these sets with 95 % confidence.

    Parameters
    ----------
    better : (K, K) whether the row's backbone is better than the column's.

    Source: Mogstad, Romano, Shaikh and Wilhelm, Inference for Ranks with Applications to Mobility across
    Neighbourhoods and Academic Achievement across Countries (2024).
    """
    better = np.asarray(better, bool)
    if np.any(better & better.T):
        raise ValueError("two backbones are each better than the other")
    return np.stack([1 + better.sum(axis=0), len(better) - better.sum(axis=1)], axis=1)


def ranks_text(smallest: int, largest: int) -> str:
    """``2`` or ``1-3`` (with an en dash)."""
    return f"{smallest}" if smallest == largest else f"{smallest}\u2013{largest}"


def _split(groups: list[frozenset], one: int, other: int) -> list[frozenset]:
    kept = [group for group in groups if not {one, other} <= group]
    for group in groups:
        if {one, other} <= group:
            for part in (group - {one}, group - {other}):
                if not any(part <= another for another in kept):
                    kept = [another for another in kept if not another <= part] + [part]
    return kept


def _letter(number: int) -> str:
    """a to z, then a' to z', and so on."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return alphabet[number % 26] + "'" * (number // 26)
