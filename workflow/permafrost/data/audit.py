"""Leakage between splits: the same image, nearly the same image, the same group, the same place.

Images are compared by fingerprints of their pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from permafrost.core.specification import SPLITS
from permafrost.data.records import Record

#: two 64-bit hashes this near (differing bits) make a candidate for a near-duplicate
HAMMING = 10
#: candidates count when their thumbnails correlate at least this much ...
CORRELATION = 0.98
#: ... and when each has at least this much contrast (std of the thumbnail / std of all thumbnails):
#: open water and flat fields all hash alike and say nothing
CONTRAST = 0.05
EXAMPLES = 20
EARTH_KM = 6371.0088


def audit_splits(records: dict[str, Sequence[Record]], hashes: dict[str, ImageHashes]) -> dict:
    """The card's ``audit``.

    ``exact_duplicates``: images of val or test that stand in an earlier split too (order: train, val,
    test); ``near_duplicates``: the same for images that look alike and are not equal;
    ``shared_groups``: groups found in more than one split; ``min_distance_km``: from a test image to
    the nearest train image, None without coordinates; ``examples``: some of what was found.
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
    return {
        "exact_duplicates": len(exact),
        "near_duplicates": len(near),
        "shared_groups": len(shared),
        "min_distance_km": min_distance_km(records["train"], records["test"]),
        "examples": examples,
    }


def duplicates(hashes: dict[str, ImageHashes], match) -> dict[tuple[str, int], tuple[str, int]]:
    """(split, row) of a later split -> (split, row) of an earlier one that `match` pairs it with."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for earlier, later in combinations(SPLITS, 2):
        for row, other in match(hashes[later], hashes[earlier]):
            found.setdefault((later, row), (earlier, other))
    return found


def exact_matches(later: ImageHashes, earlier: ImageHashes) -> Iterator[tuple[int, int]]:
    """Rows of `later` whose pixels equal those of a row of `earlier`."""
    first = {digest.tobytes(): row for row, digest in reversed(list(enumerate(earlier.exact)))}
    for row, digest in enumerate(later.exact):
        if digest.tobytes() in first:
            yield row, first[digest.tobytes()]


def near_matches(later: ImageHashes, earlier: ImageHashes) -> Iterator[tuple[int, int]]:
    """Rows of `later` that look like a row of `earlier`: near hashes, then alike thumbnails."""
    spread = np.concatenate([later.thumbs, earlier.thumbs]).std()
    new, old = standardised(later.thumbs, spread), standardised(earlier.thumbs, spread)
    # flat images are left out before the search: among them every pair would be a candidate
    rows, others = np.flatnonzero(new.any(axis=1)), np.flatnonzero(old.any(axis=1))
    for row, other in hamming_pairs(later.dhash[rows], earlier.dhash[others], HAMMING):
        row, other = rows[row], others[other]
        alike = (new[row] * old[other]).sum(axis=1) >= CORRELATION
        yield from zip(row[alike].tolist(), other[alike].tolist(), strict=True)


def standardised(thumbs: np.ndarray, spread: float) -> np.ndarray:
    """Thumbnails with mean 0 and norm 1, zeros where the contrast is below `CONTRAST`."""
    centred = thumbs - thumbs.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(centred, axis=1, keepdims=True)
    flat = norm <= CONTRAST * max(float(spread), 1e-12) * np.sqrt(thumbs.shape[1])
    return np.where(flat, 0, centred / np.maximum(norm, 1e-12))


def hamming_pairs(
    new: np.ndarray, old: np.ndarray, limit: int, *, block: int = 2**23
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows whose 64-bit hashes differ in at most `limit` bits, block by block of `new`.

    Memory stays near 9 bytes times `block`, whatever the sizes.
    """
    step = max(1, block // max(len(old), 1))
    for start in range(0, len(new), step):
        distance = np.bitwise_count(new[start : start + step, None] ^ old[None, :])
        row, other = np.nonzero(distance <= limit)
        yield row + start, other


def shared_groups(records: dict[str, Sequence[Record]]) -> dict[str, list[str]]:
    """Group -> the splits it stands in, for groups in more than one split."""
    homes: dict[str, set[str]] = {}
    for split, members in records.items():
        for record in members:
            if record.group_id is not None:
                homes.setdefault(record.group_id, set()).add(split)
    return {
        group: [split for split in SPLITS if split in splits]
        for group, splits in sorted(homes.items())
        if len(splits) > 1
    }


def min_distance_km(train: Sequence[Record], test: Sequence[Record]) -> float | None:
    """Great-circle distance of the nearest pair of a train and a test record that have lon and lat."""
    here, there = (_unit_vectors(part) for part in (train, test))
    if not len(here) or not len(there):
        return None
    from scipy.spatial import cKDTree

    chord, _ = cKDTree(here).query(there)
    return float(2 * EARTH_KM * np.arcsin(min(chord.min() / 2, 1.0)))


def _unit_vectors(records: Sequence[Record]) -> np.ndarray:
    degrees = [(r.lon, r.lat) for r in records if r.lon is not None and r.lat is not None]
    lon, lat = np.radians(np.array(degrees, dtype=float).reshape(-1, 2)).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


#: rows and columns of the thumbnail; each row gives 8 comparisons of neighbours, 64 bits in all
ROWS, COLUMNS = 8, 9


@dataclass(frozen=True)
class ImageHashes:
    """Per image: ``exact`` (N,) 16-byte digests as void, ``dhash`` (N,) uint64, ``thumbs`` (N, 72).

    ``thumbs`` are block means of the grey image (mean over bands), float32 in stored values.
    """

    exact: np.ndarray
    dhash: np.ndarray
    thumbs: np.ndarray

    @classmethod
    def join(cls, parts: list[ImageHashes]) -> ImageHashes:
        return cls(*(np.concatenate([getattr(p, f) for p in parts]) for f in cls.__annotations__))


def hash_images(samples: Sequence[Sequence[np.ndarray]]) -> ImageHashes:
    """Hashes of samples, each the images (C, H, W) or series (T, C, H, W) of its modalities; true pixels only.

    Samples are alike where the images of the first modality are, as the mean over their dates.
    """
    exact = np.array([exact_digest(*images) for images in samples], dtype="V16")
    thumbs = np.stack([thumbnail(first) for first, *_ in samples])
    return ImageHashes(exact, difference_hash(thumbs), thumbs)


def exact_digest(*images: np.ndarray) -> bytes:
    """16 bytes that depend on shape, type and every pixel."""
    # half the time of BLAKE2b where the processor has instructions for it
    digest = hashlib.sha256()
    for image in images:
        digest.update(f"{image.shape}{image.dtype.str}".encode())
        digest.update(np.ascontiguousarray(image))
    return digest.digest()[:16]


def thumbnail(image: np.ndarray) -> np.ndarray:
    """(72,) float32: means of the grey image, over all bands and dates, over a grid of 8 x 9 nearly equal blocks."""
    image = image.reshape(-1, *image.shape[-2:])
    _, height, width = image.shape
    # band after band: a mean over the first axis is several times slower
    grey = image[0].astype(np.float32)
    for band in image[1:]:
        grey += band
    grey /= len(image)
    if height < ROWS or width < COLUMNS:
        # tiny images: repeat pixels rather than leave blocks empty
        grey = np.repeat(np.repeat(grey, -(-ROWS // height), 0), -(-COLUMNS // width), 1)
    means = grey
    for axis, blocks in ((0, ROWS), (1, COLUMNS)):
        edges = np.arange(blocks) * means.shape[axis] // blocks
        sizes = np.diff(np.append(edges, means.shape[axis])).astype(np.float32)
        sums = np.add.reduceat(means, edges, axis=axis)
        means = sums / (sizes[:, None] if axis == 0 else sizes)
    return means.ravel()


def difference_hash(thumbs: np.ndarray) -> np.ndarray:
    """(N,) uint64: bit set where a block is brighter than its left neighbour (dHash)."""
    grid = thumbs.reshape(-1, ROWS, COLUMNS)
    bits = (grid[:, :, 1:] > grid[:, :, :-1]).reshape(-1, 64)
    return np.packbits(bits, axis=1).view(np.uint64).ravel()
