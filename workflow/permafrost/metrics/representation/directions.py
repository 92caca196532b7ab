"""Uniformity and alignment of features scaled to length 1.

Source: Wang and Isola, Understanding Contrastive Representation Learning through Alignment and
Uniformity on the Hypersphere, ICML 2020, with their defaults t = 2 and alpha = 2. Units: none.
A row of zeros has no direction: it is omitted and counted in the note ``zero_rows``.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.representation.measure import Measure, terms_by_unit, undefined
from permafrost.metrics.representation.pairs import Block
from permafrost.metrics.representation.points import (
    Points,
    as_points,
    check_features,
    check_labels,
    check_units,
)

TEMPERATURE = 2.0
#: flag of measures of views if augmentations did not change the views
STILL = "the views of every image are equal"


class Uniformity:
    """log of the mean over i != j of exp(-2 |z_i - z_j|^2), z the (N, d) rows at length 1.

    0 at most, if all directions are equal; about -4 if they are uniform in many
    dimensions. Lower is more uniform. Labels are not used. Units: none. O(N d) memory, O(N^2 d) time.
    Undefined for fewer than two rows with a direction.

    It sums the kernel's rows over blocks of pairs.
    """

    def __init__(self, points: Points) -> None:
        self.points, self.directed = points, points.lengths > 0
        self._weights = self.directed.astype(np.float64)
        self._sums = np.zeros(len(points))

    def visit(self, block: Block) -> None:
        kernel = np.exp(-TEMPERATURE * block.squared_chords)
        # minus the pair of a row with itself, whose kernel is 1
        self._sums[block.start : block.stop] = kernel @ self._weights - 1.0

    def measure(self) -> Measure:
        points, rows = self.points, int(np.count_nonzero(self.directed))
        notes = _notes(points.notes(), len(points) - rows)
        if rows < 2:
            return undefined("fewer than two rows have a direction", notes)
        if points.collapsed:
            notes["flag"] = "all rows are equal"
        each = self._sums[self.directed] / (rows - 1)
        # rounding of two sums could raise the mean of equal kernels above 1
        mean = min(1.0, float(each.mean()))
        effects = np.zeros(len(points))
        effects[self.directed] = 2.0 * (each - each.mean()) / (mean * rows)
        terms = terms_by_unit(effects, points.units, points.n_units)
        return Measure(float(np.log(mean)), notes, terms)


def alignment(features, labels, *, units=None) -> Measure:
    """Mean squared distance, at length 1, of a row to another row of its class.

    A row is drawn uniformly, then its positive uniformly from the other rows of its class. Within a class
    of n rows with directions z, the sum over i != j of |z_i - z_j|^2 is 2 n^2 - 2 |sum z|^2, so
    memory and time are O(N d).

    Parameters
    ----------
    features : (N, d).
    labels : (N,) class ids. Classes with one row have no positives: they are omitted and counted
        in the note ``singletons``.

    In [0, 4]; lower is better aligned. Undefined if no class has two rows with a direction, and
    for the (N, L) labels of a multi-label dataset.
    """
    points = as_points(features, units)
    labels = check_labels(labels, len(points))
    directed = np.flatnonzero(points.lengths > 0)
    notes = _notes(points.notes(), len(points) - len(directed))
    if labels.ndim > 1:
        return undefined("labels are not single classes", notes)
    total, effects, used = 0.0, np.zeros(len(points)), np.zeros(len(points), bool)
    kinds, codes, sizes = np.unique(labels[directed], return_inverse=True, return_counts=True)
    if alone := int(np.count_nonzero(sizes == 1)):
        notes["singletons"] = alone
    for code in np.flatnonzero(sizes > 1):
        rows = directed[codes == code]
        mean, to_others = _within(_directions(points, rows))
        total, used[rows] = total + mean * len(rows), True
        effects[rows] = mean + 2.0 * (to_others - mean)
    if not used.any():
        return undefined("no class has two rows with a direction", notes)
    if len(kinds) == 1:
        notes["flag"] = "one class"
    value = total / np.count_nonzero(used)
    effects[used] = (effects[used] - value) / np.count_nonzero(used)
    return Measure(value, notes, terms_by_unit(effects, points.units, points.n_units))


def view_alignment(views, *, units=None) -> Measure:
    """Mean squared distance, at length 1, of a view of an image to another view of it.

    An image is drawn uniformly, then a pair of its views. Over the n views with directions z of an image,
    the mean over i != j of |z_i - z_j|^2 is 2 / (n - 1) times the sum of their squared distances to
    their mean, so time and memory are O(N q d).

    Parameters
    ----------
    views : (N, q, d) features of q augmented views of each image.
    units : (N,) independent unit of each image.

    In [0, 4]; lower is better aligned. Views of zeros have no direction: they are omitted and counted
    in ``zero_views``, images with fewer than two remaining views in ``lone_images``. Undefined for one image,
    one view, equal features, and if no image has two views with a direction.
    """
    views = np.asarray(views)
    if views.ndim != 3:
        raise PermafrostError(
            f"views have the shape (images, views, dimensions), not {views.shape}",
            remedy="stack the features of the augmented views of each image",
        )
    images, count, dimensions = views.shape
    flat = check_features(views.reshape(images * count, dimensions), "the views")
    units = check_units(units, images)
    notes = {"rows": images, "views": count}
    if images < 2 or count < 2:
        return undefined("it takes two images and two views of each", notes)
    if (flat == flat[0]).all():
        return undefined("all views of all images are equal", notes)
    unit, directed = _unit(flat.astype(np.float64))
    unit, directed = unit.reshape(views.shape), directed.reshape(images, count)
    if zeros := int(np.count_nonzero(~directed)):
        notes["zero_views"] = zeros
    there = directed.sum(axis=1)
    kept = there > 1
    if lone := int(np.count_nonzero(~kept)):
        notes["lone_images"] = lone
    if not kept.any():
        return undefined("no image has two views with a direction", notes)
    # relative to one of them, equal views are exactly 0
    first = unit[np.arange(images), directed.argmax(axis=1)]
    unit -= first[:, None]
    unit[~directed] = 0.0
    unit -= (unit.sum(axis=1) / np.maximum(there, 1)[:, None])[:, None]
    unit[~directed] = 0.0
    squared = np.einsum("ijk,ijk->i", unit, unit)
    each = 2.0 * squared / np.maximum(there - 1, 1)
    value = float(each[kept].mean())
    if not each.any():
        notes["flag"] = STILL
    effects = np.where(kept, each - value, 0.0) / np.count_nonzero(kept)
    return Measure(value, notes, terms_by_unit(effects, units, int(units.max()) + 1))


def _within(directions: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean squared distance of pairs of the (n, d) directions, and of each to the others."""
    rows, total = len(directions), directions.sum(axis=0)
    to_others = np.maximum(0.0, 2.0 * (rows - directions @ total)) / (rows - 1)
    return float(to_others.mean()), to_others


def _directions(points: Points, rows: np.ndarray) -> np.ndarray:
    return (points.values[rows] + points.mean) / points.lengths[rows, None]


def _unit(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows scaled to length 1, and bool: those with a direction."""
    largest = np.abs(features).max(axis=1, keepdims=True)
    features = features / np.where(largest == 0, 1.0, largest)
    lengths = np.sqrt(np.einsum("ij,ij->i", features, features))[:, None]
    return features / np.where(lengths == 0, 1.0, lengths), largest[:, 0] > 0


def _notes(notes: dict, zero_rows: int) -> dict:
    return {**notes, "zero_rows": zero_rows} if zero_rows else notes
