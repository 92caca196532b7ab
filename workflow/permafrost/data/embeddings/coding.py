"""Decode the numbers in rasters of embeddings."""

from __future__ import annotations

import numpy as np

#: levels of each of the six numbers in a code of Embedded Seamless Data
ESD_LEVELS = (8, 8, 8, 5, 5, 5)
ALPHAEARTH_NODATA = -128


def alphaearth(stored: np.ndarray) -> np.ndarray:
    """Decode signed bytes of AlphaEarth's annual embeddings: ``sign(v) (v / 127.5)²``; same shape.

    Source: README of Google's bucket (developers.google.com/earth-engine/guides/aef_on_gcs_readme).
    """
    share = stored.astype(np.float32) / np.float32(127.5)
    return share * np.abs(share)


def esd(stored: np.ndarray) -> np.ndarray:
    """Decode (C, …) codes of Embedded Seamless Data to (6 C, …) numbers in [-1, 1], six in a row per code.

    Finite scalar quantisation: digit i of a code in the mixed base `ESD_LEVELS` means ``(digit - n
    // 2) / (n // 2)``, where n is its number of levels (arXiv 2601.11183; as in torchgeo).
    """
    codes = stored.astype(np.int64)
    parts, base = [], 1
    for levels in ESD_LEVELS:
        half = levels // 2
        parts.append(((codes // base) % levels - half) / half)
        base *= levels
    return np.stack(parts, axis=1).reshape(-1, *codes.shape[1:]).astype(np.float32)


CODINGS = {"alphaearth": alphaearth, "esd": esd}
