"""Fingerprints of image pixels, and identical or similar images by them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

#: 64-bit hashes with at most this many differing bits are candidates for near-duplicates
HAMMING = 10
#: candidates count if their thumbnails correlate at least this much ...
CORRELATION = 0.98
#: ... and if each has at least this much contrast (std of the thumbnail / std of all thumbnails):
#: hashes of open water and flat fields are all alike and carry no information
CONTRAST = 0.05
# thumbnails processed at once
_BLOCK = 2**14
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
    def empty(cls, count: int) -> ImageHashes:
        """Empty hashes for `count` images."""
        return cls(
            np.zeros(count, "V16"),
            np.zeros(count, np.uint64),
            np.zeros((count, ROWS * COLUMNS), np.float32),
        )

    def put(self, start: int, others: ImageHashes) -> None:
        """Set the rows from `start` on."""
        for name in self.__annotations__:
            rows = getattr(others, name)
            getattr(self, name)[start : start + len(rows)] = rows


def hash_images(samples: Sequence[Sequence[np.ndarray]]) -> ImageHashes:
    """Hashes of samples, each the images (C, H, W) or series (T, C, H, W) of its modalities, without padding.

    Similarity refers to the images of the first modality, averaged over dates.
    """
    exact = np.array([exact_digest(*images) for images in samples], dtype="V16")
    thumbs = np.stack([thumbnail(first) for first, *_ in samples])
    return ImageHashes(exact, difference_hash(thumbs), thumbs)


def exact_digest(*images: np.ndarray) -> bytes:
    """16 bytes that depend on shape, type and every pixel."""
    # half the time of BLAKE2b on processors with SHA instructions
    digest = hashlib.sha256()
    for image in images:
        digest.update(f"{image.shape}{image.dtype.str}".encode())
        digest.update(np.ascontiguousarray(image))
    return digest.digest()[:16]


def thumbnail(image: np.ndarray) -> np.ndarray:
    """(72,) float32: means of the grey image, over all bands and dates, in a grid of 8 x 9 nearly equal blocks."""
    image = image.reshape(-1, *image.shape[-2:])
    _, height, width = image.shape
    # sum band by band: a mean over the first axis is several times slower
    grey = image[0].astype(np.float32)
    for band in image[1:]:
        grey += band
    grey /= len(image)
    if height < ROWS or width < COLUMNS:
        # repeat pixels of tiny images, so that no block is empty
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


def exact_matches(later: ImageHashes, earlier: ImageHashes) -> Iterator[tuple[int, int]]:
    """(row of `later`, first identical row of `earlier`), by pixels."""
    order = np.argsort(earlier.exact, kind="stable")
    place = np.searchsorted(earlier.exact, later.exact, sorter=order)
    inside = np.flatnonzero(place < len(order))
    others = order[place[inside]]
    same = earlier.exact[others] == later.exact[inside]
    yield from zip(inside[same].tolist(), others[same].tolist(), strict=True)


def near_matches(
    later: ImageHashes, earlier: ImageHashes, spread: float | None = None
) -> Iterator[tuple[int, int]]:
    """(row of `later`, similar row of `earlier`): close hashes first, then correlated thumbnails.

    `spread` is the standard deviation of all thumbnails, the reference for contrast; by default
    that of these two.
    """
    if spread is None:
        spread = spread_of(later.thumbs, earlier.thumbs)
    # flat images are removed before the search: every pair of them would be a candidate
    rows, others = (_with_contrast(one.thumbs, spread) for one in (later, earlier))
    for row, other in hamming_pairs(later.dhash[rows], earlier.dhash[others], HAMMING):
        row, other = rows[row], others[other]
        for start in range(0, len(row), _BLOCK):
            part, against = row[start : start + _BLOCK], other[start : start + _BLOCK]
            new, old = standardised(later.thumbs[part]), standardised(earlier.thumbs[against])
            alike = (new * old).sum(axis=1) >= CORRELATION
            yield from zip(part[alike].tolist(), against[alike].tolist(), strict=True)


def hamming_pairs(
    new: np.ndarray, old: np.ndarray, limit: int, *, block: int = 2**21
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows whose 64-bit hashes differ in at most `limit` bits, in blocks of `new`.

    Memory is about 9 bytes times `block`, for all sizes.
    """
    step = max(1, block // max(len(old), 1))
    for start in range(0, len(new), step):
        distance = np.bitwise_count(new[start : start + step, None] ^ old[None, :])
        row, other = np.nonzero(distance <= limit)
        yield row + start, other


def standardised(thumbs: np.ndarray) -> np.ndarray:
    """Thumbnails with mean 0 and norm 1."""
    centred, norm = _centred(thumbs)
    return centred / np.maximum(norm, 1e-12)


def _centred(thumbs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Thumbnails with mean 0, and their norms (N, 1)."""
    centred = thumbs - thumbs.mean(axis=1, keepdims=True)
    return centred, np.linalg.norm(centred, axis=1, keepdims=True)


def _with_contrast(thumbs: np.ndarray, spread: float) -> np.ndarray:
    """Rows of thumbnails with a contrast of at least `CONTRAST`."""
    least = CONTRAST * max(spread, 1e-12) * np.sqrt(thumbs.shape[1])
    found = [
        start + np.flatnonzero(_centred(thumbs[start : start + _BLOCK])[1] > least)
        for start in range(0, len(thumbs), _BLOCK)
    ]
    return np.concatenate([np.empty(0, np.int64), *found])


def spread_of(*thumbs: np.ndarray) -> float:
    """Standard deviation of the values of all thumbnails."""
    blocks = [one[start : start + _BLOCK] for one in thumbs for start in range(0, len(one), _BLOCK)]
    count = max(sum(block.size for block in blocks), 1)
    mean = sum(block.sum(dtype=np.float64) for block in blocks) / count
    squares = (np.square(block.astype(np.float64) - mean).sum() for block in blocks)
    return float(np.sqrt(sum(squares) / count))
