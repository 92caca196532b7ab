"""A name for a ground truth by what it says: evaluations of its parts belong together."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from permafrost.metrics.detection.inputs.compressed import Compressed
from permafrost.metrics.detection.inputs.tables import Truths


def digest(truths: Truths) -> str:
    """32 hexadecimal digits over all images, categories and annotations, geometry included."""
    total = hashlib.sha256()
    images, categories = truths.images, truths.categories
    arrays = [images.ids, images.widths, images.heights, categories.ids]
    names = ("ids", "image", "category", "boxes", "areas", "crowd", "ignored")
    arrays += [getattr(truths, name) for name in names]
    if truths.keypoints is not None:
        arrays.append(truths.keypoints)
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    lists = [
        None if values is None else [value.tolist() for value in values]
        for values in (images.negative, images.not_exhaustive)
    ]
    words = [categories.names, categories.frequencies, lists, truths.segmentations]
    total.update(json.dumps(words, default=plain).encode())
    return total.hexdigest()[:32]


def plain(value):
    """What JSON has no word for: run lengths as bytes, masks, NumPy's numbers and arrays."""
    if isinstance(value, Compressed):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
