"""Divide records into parts whose sizes and shares of each stratum approximate given fractions."""

from __future__ import annotations

import numpy as np


def stratified(strata: np.ndarray, fractions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Part of each record; every stratum is divided in the same fractions.

    Parameters
    ----------
    strata : (N,) int, e.g. class ids.
    fractions : (P,), sum 1.

    Returns
    -------
    (N,) int, the part in [0, P).
    """
    parts = np.empty(len(strata), np.int64)
    edges = np.cumsum(fractions)[:-1]
    for stratum in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == stratum))
        # a random offset distributes the remainders of small strata
        position = (np.arange(len(members)) + rng.random()) / len(members)
        parts[members] = np.searchsorted(edges, np.minimum(position, 1 - 1e-12), side="right")
    return parts


def at_random(strata: np.ndarray, fractions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Part of each record, when any record may go to any part."""
    if strata.ndim == 1:
        return stratified(strata, fractions, rng)
    # from large to small would always put the images with most objects into train
    return by_unit(np.arange(len(strata)), strata, fractions, rng, large_first=False)


def by_unit(
    units: np.ndarray,
    strata: np.ndarray,
    fractions: np.ndarray,
    rng: np.random.Generator,
    *,
    large_first: bool = True,
) -> np.ndarray:
    """Part of each record; units (group, block) stay whole, sizes and strata approximate the fractions.

    Units are assigned from large to small, ties in random order (or all in random order). Each goes
    to the part for which the counts per stratum then come closest to the fractions.

    Parameters
    ----------
    strata : (N,) the stratum of each record, or (N, S) its amount of each stratum.
    """
    names, unit = np.unique(units, return_inverse=True)
    if strata.ndim == 1:
        kinds, stratum = np.unique(strata, return_inverse=True)
        strata = np.eye(len(kinds))[stratum]
    counts = np.zeros((len(names), strata.shape[1]))
    np.add.at(counts, unit, strata)
    wanted = fractions[:, None] * counts.sum(0)
    have = np.zeros_like(wanted)
    part_of = np.empty(len(names), np.int64)
    order = rng.permutation(len(names))
    if large_first:
        order = order[np.argsort(-counts[order].sum(1), kind="stable")]
    for number in order:
        over = have + counts[number] - wanted
        cost = (over**2 - (have - wanted) ** 2) / np.maximum(wanted, 1e-9)
        best = int(cost.sum(1).argmin())
        part_of[number] = best
        have[best] += counts[number]
    return part_of[unit]
