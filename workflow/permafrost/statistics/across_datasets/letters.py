"""Significant differences as a compact letter display and as confidence sets of ranks.

Both start from a matrix of pairs: whether the row's backbone is significantly better than the
column's, adjusted for all pairs (`p_adjusted` of comparisons on one dataset, `draws.told_apart`
over datasets).
"""

from __future__ import annotations

import re

import numpy as np


def compact_letters(different, order=None) -> list[str]:
    """Letters of each of K backbones: two share a letter exactly if they do not differ significantly.

    Each pair that does not differ and shares no letter yet gets a new one. The letter then goes, in
    the order of `order`, to every backbone that differs from none of its holders. Letters whose
    pairs all share another letter are dropped. Every group is therefore maximal and needed, and
    there are no more letters than pairs. This takes at most K^3 steps; enumerating all maximal
    groups can be exponential.

    Parameters
    ----------
    different : (K, K) whether two differ significantly; symmetric, or True if the row is better.
    order : indices, best first, that determine the letters: the first gets "a". Default: input
        order.

    Source: Piepho, An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons (2004), for the letters;
    Kellerman, Determination of Keyword Conflict (1973), for covering the pairs of a graph by groups.
    """
    different = np.asarray(different, bool)
    different = different | different.T
    if np.any(np.diag(different)):
        raise ValueError("a backbone differs from itself")
    order = np.arange(len(different)) if order is None else np.asarray(order)
    alike = ~different[np.ix_(order, order)]
    groups: list[np.ndarray] = []
    shared = np.zeros(alike.shape, int)
    for one, other in np.argwhere(np.triu(alike)).tolist():
        # a backbone that differs from all others gets a separate letter
        if not shared[one, other] and (one != other or alike[one].sum() == 1):
            groups.append(_grown(alike, one, other))
            shared[np.ix_(groups[-1], groups[-1])] += 1
    for place in reversed(range(len(groups))):
        own = np.ix_(groups[place], groups[place])
        if shared[own].min() > 1:
            shared[own] -= 1
            del groups[place]
    groups.sort(key=list)
    letters = [""] * len(different)
    for number, group in enumerate(groups):
        for backbone in order[group]:
            letters[backbone] += _letter(number)
    return letters


def letters_in(text: str | None) -> set[str]:
    """The letters of a backbone: ``{"a", "b'"}`` for ``ab'``; empty for None."""
    return set(re.findall("[a-z]'*", text or ""))


def ranks_possible(better) -> np.ndarray:
    """(K, 2) smallest and largest rank in each backbone's confidence set, from the pairs.

    The smallest is 1 + the number of backbones that are significantly better, the largest K minus
    the number that are significantly worse. If all significant pairs are right with 95 %
    confidence, the sets contain all true ranks with 95 % confidence.

    Parameters
    ----------
    better : (K, K) whether the row's backbone is significantly better than the column's.

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


def _grown(alike: np.ndarray, one: int, other: int) -> np.ndarray:
    """Indices of a maximal group with both: backbones alike with all members join, best first."""
    group, may_join = [one, other], alike[one] & alike[other]
    may_join[[one, other]] = False
    while may_join.any():
        joins = int(np.argmax(may_join))
        group.append(joins)
        may_join &= alike[joins]
        may_join[joins] = False
    return np.unique(group)


def _letter(number: int) -> str:
    """a to z, then a' to z', and so on."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return alphabet[number % 26] + "'" * (number // 26)
