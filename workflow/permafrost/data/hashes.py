"""Fingerprints of pixels: equal images, and images that look alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

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


def hash_images(images: list[np.ndarray]) -> ImageHashes:
    """Hashes of images (C, H, W) of any sizes, true pixels only."""
    exact = np.array([exact_digest(image) for image in images], dtype="V16")
    thumbs = np.stack([thumbnail(image) for image in images])
    return ImageHashes(exact, difference_hash(thumbs), thumbs)


def exact_digest(image: np.ndarray) -> bytes:
    """16 bytes that depend on shape, type and every pixel."""
    digest = hashlib.blake2b(f"{image.shape}{image.dtype.str}".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(image))
    return digest.digest()


def thumbnail(image: np.ndarray) -> np.ndarray:
    """(72,) float32: means of the grey image over a grid of 8 x 9 nearly equal blocks."""
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
