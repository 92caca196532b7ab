"""What a map of a dataset's test images is drawn from: their features in two dimensions, answers, errors and places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.store_readers import open_store
from permafrost.core.tables import read_table
from permafrost.core.tasks import targets_of
from permafrost.features.stored import open_features
from permafrost.metrics.representation.plane import nearest_rows, plane_of
from permafrost.metrics.representation.points import as_points
from permafrost.report.material import pictures
from permafrost.report.material.dataset import Evaluation, Material, best_evaluation, name_of
from permafrost.report.material.hardest import error_of
from permafrost.statistics.leaderboard.rows import distinct
from permafrost.statistics.measures.rows import OF_DATES, FeatureRows, read_rows
from permafrost.statistics.predictions.columns import array_of

#: images of a map, points of all its backbones together, and neighbours of an image
MOST_IMAGES, MOST_POINTS, NEIGHBOURS = 1000, 30_000, 3
#: longest side of a small picture, and chunks of the image store (6 MB each) that are read for them
SIDE, _MOST_CHUNKS = 48, 64

Answer = int | list[int] | float | None


@dataclass(frozen=True)
class Mapped:
    """The N images as one backbone sees them.

    Attributes
    ----------
    coordinates : (N, 2) first two principal components. shares : (2,) of the variance.
    neighbours : (N, M) the nearest of the other images by Euclidean distance of the features.
    evaluation : words for the backbone's best evaluation; None without one.
    answers : N predictions in the form of the truth. errors : (N,) of this evaluation, NaN if unknown.
    """

    backbone: str
    coordinates: np.ndarray
    shares: np.ndarray
    neighbours: np.ndarray
    evaluation: str | None
    answers: list[Answer]
    errors: np.ndarray


@dataclass(frozen=True)
class ImageMap:
    """A map of N of the test images.

    Attributes
    ----------
    sample_ids : N names. total : number of test images that they were drawn from.
    truth : N class numbers, lists of them, or numbers; None if the target is a mask, raster or objects.
    places : (N, 2) longitude and latitude, NaN if unknown; None without any.
    mapped : each backbone with stored features. missing : those without.
    """

    sample_ids: list[str]
    total: int
    truth: list[Answer] | None
    places: np.ndarray | None
    mapped: list[Mapped]
    missing: list[str]


def read_image_map(material: Material, features: Mapping[str, Path]) -> ImageMap | None:
    """The map of a dataset; None for a derived dataset, and if no features of test images are planned.

    Parameters
    ----------
    features : backbone -> feature store of test, which may have been deleted.
    """
    names = [name for name in sorted(distinct(material.rows, "backbone")) if name in features]
    if material.card.derived is not None or not names:
        return None
    here = [name for name in names if Path(features[name]).exists()]
    most = min(MOST_IMAGES, MOST_POINTS // max(1, len(here)))
    found = {name: _rows(material, features[name], most) for name in here}
    read = {name: rows for name, rows in found.items() if rows is not None}
    missing = [name for name in names if name not in read]
    if not read:
        return ImageMap([], 0, None, None, [], missing)
    first = next(iter(read.values()))
    whole = _image_ids(material, first.sample_ids)
    mapped = [_mapped(material, name, rows, whole) for name, rows in read.items()]
    return ImageMap(
        first.sample_ids,
        first.total,
        _truth(material, first, whole),
        _places(material, first.sample_ids),
        mapped,
        missing,
    )


def _rows(material: Material, path: Path, most: int) -> FeatureRows | None:
    """The drawn rows of a store, the same for all backbones; None if it is not usable or holds maps alone."""
    expect = material.expected(path)
    options = {"split": "test", "max_rows": most, "seed": material.picture_seed}
    options |= OF_DATES.get(material.card.dates, {})
    try:
        if "embeddings" not in open_features(path, expect=expect, split="test"):
            return None
        return read_rows(path, options, dataset=material.name, expect=expect)
    except PermafrostError:  # of another plan, damaged, or with NaN
        return None


def _mapped(material: Material, name: str, rows: FeatureRows, whole: list[str]) -> Mapped:
    points = as_points(rows.features)
    plane, best = plane_of(points), best_evaluation(material, name)
    return Mapped(
        name,
        plane.coordinates,
        plane.shares,
        nearest_rows(points, NEIGHBOURS),
        best and name_of(best, material),
        _column(material, best, "prediction", whole),
        _errors(material, best, whole),
    )


def _errors(material: Material, best: Evaluation | None, names: list[str]) -> np.ndarray:
    error = error_of(material)
    if best is None or error is None:
        return np.full(len(names), np.nan)
    path = material.predictions[best]
    ids, values = error.read(path, material.expected(path))
    found = dict(zip(ids, np.asarray(values, float).tolist(), strict=True))
    return np.array([found.get(name, np.nan) for name in names])


def _truth(material: Material, rows: FeatureRows, names: list[str]) -> list[Answer] | None:
    if targets_of(material.card.task).stored is None:
        return None
    if rows.labels is not None:
        return [_plain(label) for label in rows.labels]
    best = best_evaluation(material)
    return _column(material, best, "target", names)


def _column(
    material: Material, best: Evaluation | None, name: str, names: list[str]
) -> list[Answer]:
    """A column of a table of predictions, for these images; None for those that it lacks."""
    if best is None or targets_of(material.card.task).stored is None:
        return [None] * len(names)
    path = material.predictions[best]
    table, _ = read_table(path, expect=material.expected(path), columns=["sample_id", name])
    values = (_plain(one) for one in array_of(table, name))
    found = dict(zip(table["sample_id"].to_pylist(), values, strict=True))
    return [found.get(one) for one in names]


def _plain(value: np.ndarray | np.generic) -> Answer:
    """A class number, the numbers of the labels that are 1, or a number."""
    if value.ndim:
        return np.flatnonzero(value).tolist()
    return int(value) if value.dtype.kind in "iub" else float(value)


def _image_ids(material: Material, names: list[str]) -> list[str]:
    """The image of each sample, which is another for windows of large images."""
    known = _samples(material, "image_id")
    return [str(known.get(name) or name) for name in names]


def _samples(material: Material, column: str) -> dict[str, Any]:
    """Sample -> value of a column of the image store; empty without store or column."""
    if material.without_images is not None:
        return {}
    store = open_store(material.images, expect=material.expected(material.images))
    samples = store.samples(columns=["sample_id", column])
    if column not in samples.column_names:
        return {}
    return dict(zip(samples["sample_id"].to_pylist(), samples[column].to_pylist(), strict=True))


def _places(material: Material, names: list[str]) -> np.ndarray | None:
    lon, lat = (_samples(material, name) for name in ("lon", "lat"))
    places = np.array([[lon.get(name), lat.get(name)] for name in names], float)
    outside = (np.abs(places) > (180, 90)).any(axis=1) | ~np.isfinite(places).all(axis=1)
    places[outside] = np.nan
    return None if outside.all() else places


def small_pictures(material: Material, found: ImageMap) -> tuple[dict[int, np.ndarray], str]:
    """Number of an image on the map -> its small picture, and how they were made.

    If not all can be read, images with larger errors come first.
    """
    if material.without_images is not None:
        return {}, material.without_images
    store = open_store(material.images, expect=material.expected(material.images), split="test")
    bands, how = pictures.picture_bands(material.card)
    at = pictures.places_of(store)
    errors = np.nan_to_num(np.array([one.errors for one in found.mapped])).mean(axis=0)
    order = np.argsort(-errors, kind="stable").tolist()
    rows = {at[found.sample_ids[number]]: number for number in order}
    read = pictures.read_small(store, [*rows], bands, SIDE, _MOST_CHUNKS)
    return {rows[row]: picture for row, picture in read.items()}, how
