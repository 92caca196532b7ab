"""The features of augmented views in a store: those of the images that the stage ``views`` drew."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.stores import Store
from permafrost.statistics.resampling.units import Units, find_units


@dataclass(frozen=True)
class ViewRows:
    """Features of the views of some images of a split.

    Attributes
    ----------
    features : (N, q, d), all finite.
    units : what is resampled, of these N images.
    total : number of samples of the split, of which the N were drawn.
    attributes : what the store recorded.
    """

    features: np.ndarray
    units: Units
    total: int
    attributes: dict

    def __len__(self) -> int:
        return len(self.features)

    def notes(self) -> dict:
        """What every measure of these views must say of them: how they were made, and of which images."""
        drawn = {"drawn_from": self.total} if len(self) < self.total else {}
        return {**drawn, "augmentations": self.attributes["augmentations"]}


def read_views(path: Path, *, expect: str | None = None, split: str | None = None) -> ViewRows:
    """The views in the store at `path`.

    Raises
    ------
    PermafrostError : a store that is damaged, or of another plan or split, NaN or infinity (the sample is named).
    """
    store = Store(path, expect=expect, split=split)
    samples = store.samples(["sample_id", "group_id"])
    ids, groups = (samples[name].to_pylist() for name in ("sample_id", "group_id"))
    features = store.read("views")
    bad = np.flatnonzero(~np.isfinite(features).all(axis=(1, 2)))
    if bad.size:
        raise PermafrostError(
            f"the views of {bad.size} images hold NaN or infinity (first: sample {ids[bad[0]]!r})",
            where=path,
            remedy="look at the backbone's weights and normalisation, then make the views again",
        )
    units = find_units(len(ids), sample_ids=ids, groups=groups)
    return ViewRows(features, units, store.attributes["drawn_from"], store.attributes)
