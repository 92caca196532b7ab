"""Leakage between splits (identical and similar images, groups, locations), and copies within the test split.

Images are compared by fingerprints of their pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from scipy.spatial import cKDTree

from permafrost.core.specification import SPLITS
from permafrost.data.records import Record
from permafrost.data.store.copies import TestCopies, copies_of_test
from permafrost.data.store.image_hashes import ImageHashes, exact_matches, near_matches

EXAMPLES = 20
EARTH_KM = 6371.0088


def audit_splits(
    records: dict[str, Sequence[Record]], hashes: dict[str, ImageHashes]
) -> tuple[dict, TestCopies]:
    """The card's ``audit``, and its results for single test images.

    ``exact_duplicates``: images of val or test that are also in an earlier split (order: train,
    val, test); ``near_duplicates``: the same for similar but not identical images;
    ``shared_groups``: groups in more than one split; ``min_distance_km``: from a test image to the
    nearest train image, None without coordinates; ``examples``: some of the duplicates and groups;
    and the keys of `TestCopies.card`.
    """
    exact = duplicates(hashes, exact_matches)
    near = duplicates(hashes, near_matches)
    near = {key: match for key, match in near.items() if key not in exact}
    shared = shared_groups(records)
    examples = [
        {
            "kind": kind,
            "splits": [earlier, split],
            "samples": [records[earlier][other].sample_id, records[split][row].sample_id],
        }
        for kind, found in (("exact", exact), ("near", near))
        for (split, row), (earlier, other) in list(found.items())[: EXAMPLES // 2]
    ]
    examples += [{"kind": "group", "group": g, "splits": s} for g, s in list(shared.items())[:5]]
    copies = copies_of_test(records["test"], hashes, {"exact": exact, "near": near}, shared)
    found = {
        "exact_duplicates": len(exact),
        "near_duplicates": len(near),
        "shared_groups": len(shared),
        "min_distance_km": min_distance_km(records["train"], records["test"]),
        "examples": examples,
    }
    return {**found, **copies.card()}, copies


def duplicates(hashes: dict[str, ImageHashes], match) -> dict[tuple[str, int], tuple[str, int]]:
    """(split, row) of a later split -> (split, row) of the matching image in an earlier one, by `match`."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for earlier, later in combinations(SPLITS, 2):
        for row, other in match(hashes[later], hashes[earlier]):
            found.setdefault((later, row), (earlier, other))
    return found


def shared_groups(records: dict[str, Sequence[Record]]) -> dict[str, list[str]]:
    """Group -> its splits, for groups in more than one split."""
    # one bit per split: a set per group would take hundreds of bytes
    homes: dict[str, int] = {}
    for number, split in enumerate(SPLITS):
        for record in records[split]:
            if record.group_id is not None:
                homes[record.group_id] = homes.get(record.group_id, 0) | 1 << number
    found = {
        group: [split for number, split in enumerate(SPLITS) if bits >> number & 1]
        for group, bits in homes.items()
        if bits.bit_count() > 1
    }
    return dict(sorted(found.items()))


def min_distance_km(train: Sequence[Record], test: Sequence[Record]) -> float | None:
    """Smallest great-circle distance in km between train and test records with lon and lat; None without such."""
    here, there = (_unit_vectors(part) for part in (train, test))
    if not len(here) or not len(there):
        return None

    chord, _ = cKDTree(here).query(there)
    return float(2 * EARTH_KM * np.arcsin(min(chord.min() / 2, 1.0)))


def _unit_vectors(records: Sequence[Record]) -> np.ndarray:
    degrees = (
        value
        for r in records
        if r.lon is not None and r.lat is not None
        for value in (r.lon, r.lat)
    )
    lon, lat = np.radians(np.fromiter(degrees, np.float64).reshape(-1, 2)).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
