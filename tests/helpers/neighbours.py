"""Features of images by themselves and beside others in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from helpers.backbones import validated
from helpers.stores.images import SPLITS, Dataset, band, sentinel2_bands


def alone_and_beside(
    folder: Path, entry: dict, metadata: bool | str = True, *, size: int = 32
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each split the features that batches of one image give, and batches of all.

    Parameters
    ----------
    metadata : see `Dataset`.
    size : of images as they are fed, where the entry says nothing else.
    """
    shared = {"sensor": "sentinel1-rtc", "unit": "db", "scale": 1.0}
    radar = [band(name, common_name=name.lower(), **shared) for name in ("VV", "VH")]
    bands = [*sentinel2_bands(), *radar]
    data = Dataset(folder, bands=bands, metadata=metadata, card={"gsd_m": 10.0}, counts=(5, 2, 3))
    entry = validated(entry)
    alone, beside = (
        data.extract(entry, out=f"by-{batch}", batch_size=batch, extraction={"size": size})
        for batch in (1, 64)
    )
    for split in SPLITS:
        yield alone[split].read("embeddings"), beside[split].read("embeddings")


def same_features(alone: np.ndarray, beside: np.ndarray) -> bool:
    """Whether they differ by no more than rounding, and are not all alike, which would prove nothing."""
    differ = len(alone) < 2 or not np.allclose(alone[0], alone[1], rtol=1e-5, atol=0)
    return differ and np.allclose(alone, beside, rtol=1e-3, atol=1e-5 * np.abs(alone).max())
