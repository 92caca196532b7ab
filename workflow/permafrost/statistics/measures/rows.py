"""Read the measured rows of a store: features of samples, or of augmented views of images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.identity import derive_seed
from permafrost.core.leakage import IDENTIFYING, sample_columns
from permafrost.core.stores import Store
from permafrost.features.dates import OverDates, date_counts, over_dates, reduction_of
from permafrost.features.stored import open_features
from permafrost.metrics.representation.points import draw_rows
from permafrost.statistics.resampling.units import Units, find_units

#: kind of dates of a dataset -> options of `read_rows` that reduce them, where no option says it
OF_DATES = {"series": {"temporal": "mean"}, "pair": {"pair": "concatenate"}}


@dataclass(frozen=True)
class FeatureRows:
    """Features of some samples of a split.

    Attributes
    ----------
    features : (N, d) embeddings, all finite.
    labels : (N,) class ids, (N, L) of 0 and 1 for multi-label, None if samples have no class.
    sample_ids : (N,) names of the samples.
    units : resampling units of these N samples.
    total : number of samples of the split, from which the N were drawn.
    attributes : attributes of the store.
    """

    features: np.ndarray
    labels: np.ndarray | None
    sample_ids: list[str]
    units: Units
    total: int
    attributes: dict

    def __len__(self) -> int:
        return len(self.features)

    def notes(self) -> dict:
        """Notes on these rows, for every measure."""
        return {"drawn_from": self.total} if len(self) < self.total else {}


def read_rows(path: Path, options: dict, *, dataset: str, expect: str | None = None) -> FeatureRows:
    """The samples of the store at `path` to measure, in the order of the store.

    Parameters
    ----------
    options : ``max_rows``, above which samples are drawn, and ``seed``; with the dataset's name it
        determines the draw, so that all backbones are measured on the same samples.

    Raises
    ------
    PermafrostError : a damaged store or one of another plan, a split without samples, NaN or
        infinity (the message names the sample).
    """
    store = open_features(path, expect=expect, split=options["split"])
    over = reduction_of(over_dates(options), store.attributes, where=path)
    if not len(store):
        raise PermafrostError(
            "the split has no samples to measure",
            where=path,
            remedy="choose another `measures: {split: …}`",
        )
    seed = derive_seed("measures", dataset, options["seed"])
    drawn = draw_rows(len(store), options["max_rows"], seed)
    samples = sample_columns(store.samples(IDENTIFYING))
    ids, groups = (samples[name].take(drawn).to_pylist() for name in ("sample_id", "group_id"))
    features = _take(store, drawn, over)
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise PermafrostError(
            f"{bad.size} embeddings hold NaN or infinity (first: sample {ids[bad[0]]!r})",
            where=path,
            remedy="check the backbone's weights and normalisation, then extract again",
        )
    return FeatureRows(
        features,
        store.read("labels")[drawn] if _classified(store) else None,
        ids,
        find_units(len(ids), sample_ids=ids, groups=groups),
        len(store),
        store.attributes,
    )


def _classified(store: Store) -> bool:
    """Whether samples have classes; regression targets have none."""
    return "labels" in store and store.attributes["task"] != "regression"


def _take(store: Store, rows: np.ndarray, over: OverDates | None) -> np.ndarray:
    """The embeddings of ascending `rows`, read chunk by chunk, so that only these are in memory."""
    step, parts = store.chunk_rows("embeddings"), []
    counts = None if over is None else date_counts(store.samples(), store.attributes)
    for start in range(0, len(store), step):
        inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + step)]
        if inside.size:
            chunk = store.read("embeddings", start, min(start + step, len(store)))
            if over is not None:
                chunk = over(chunk, counts[start : start + step], first=start)
            parts.append(chunk[inside - start])
    return np.concatenate(parts)


@dataclass(frozen=True)
class ViewRows:
    """Features of the views of some images of a split.

    Attributes
    ----------
    features : (N, q, d), all finite.
    units : resampling units of these N images.
    total : number of samples of the split, from which the N were drawn.
    attributes : attributes of the store.
    """

    features: np.ndarray
    units: Units
    total: int
    attributes: dict

    def __len__(self) -> int:
        return len(self.features)

    def notes(self) -> dict:
        """Notes on these views, for every measure: how they were made, and of which images."""
        drawn = {"drawn_from": self.total} if len(self) < self.total else {}
        return {**drawn, "augmentations": self.attributes["augmentations"]}


def read_views(path: Path, *, expect: str | None = None, split: str | None = None) -> ViewRows:
    """The views in the store at `path`.

    Raises
    ------
    PermafrostError : a damaged store or one of another plan or split, NaN or infinity (the message
        names the sample).
    """
    store = Store(path, expect=expect, split=split)
    samples = sample_columns(store.samples(IDENTIFYING))
    ids, groups = (samples[name].to_pylist() for name in ("sample_id", "group_id"))
    features = store.read("views")
    bad = np.flatnonzero(~np.isfinite(features).all(axis=(1, 2)))
    if bad.size:
        raise PermafrostError(
            f"the views of {bad.size} images hold NaN or infinity (first: sample {ids[bad[0]]!r})",
            where=path,
            remedy="check the backbone's weights and normalisation, then compute the views again",
        )
    units = find_units(len(ids), sample_ids=ids, groups=groups)
    return ViewRows(features, units, store.attributes["drawn_from"], store.attributes)
