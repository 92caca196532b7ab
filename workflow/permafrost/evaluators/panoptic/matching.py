"""Match the segments of one image, and count them per category.

Source: Kirillov et al., Panoptic Segmentation (2019), with void and crowds as in panopticapi. Two
segments of one class match if their IoU exceeds one half. Segments do not overlap, so no segment
can match twice and no assignment problem arises. Boundary PQ takes the smaller of the IoU of the
segments and the IoU of the bands along their outlines (Cheng et al., Boundary IoU, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.evaluators.panoptic.entries import ID_LIMIT, Segments
from permafrost.metrics.ratios import divide
from permafrost.metrics.segmentation.boundary import band_width, interior

NOTHING = -1  # index of void


@dataclass(frozen=True)
class ImageCounts:
    """(C,) per category: matches, false alarms, misses (int64), and the sum of the matches' IoU."""

    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray
    iou: np.ndarray


@dataclass(frozen=True)
class Shared:
    """Numbers of pixels (Q,) shared by pairs of a truth (T), or void, and a prediction (P).

    ``truth`` and ``predicted`` are (Q,) segment indices, `NOTHING` for void.
    """

    truth: np.ndarray
    predicted: np.ndarray
    pixels: np.ndarray

    def areas(self, of: str, size: int) -> np.ndarray:
        """(size,) int64 pixels of each segment; `of` is ``truth`` or ``predicted``."""
        return self.sums(getattr(self, of) >= 0, of, size)

    def sums(self, chosen: np.ndarray, of: str, size: int) -> np.ndarray:
        """(size,) int64 pixels of the `chosen` pairs, summed per segment of one side."""
        places = getattr(self, of)
        chosen = chosen & (places >= 0)
        weights = np.bincount(places[chosen], self.pixels[chosen], minlength=size)
        return weights.astype(np.int64)


def match_image(
    maps: tuple[np.ndarray, np.ndarray],
    truth: Segments,
    predicted: Segments,
    n_categories: int,
    *,
    strict: bool,
    boundary_ratio: float | None,
    where: str,
) -> ImageCounts:
    """Match the segments of one image.

    Parameters
    ----------
    maps : (H, W) int64 segment ids each, of the truth and of the prediction.
    strict : as in panopticapi: areas of true segments are from the JSON, and only the last of
        several crowds of a class excuses false alarms.
    boundary_ratio : width of the bands as a share of the image's diagonal; None for plain PQ.
    where : the entry of the truth, for messages.
    """
    shared = shared_pixels(*maps, truth, predicted)
    area = _truth_areas(shared, truth, where) if strict else None
    rows, iou = _ious(shared, truth, predicted, area, where)
    if boundary_ratio is not None:
        bands = _shared_bands(*maps, truth, predicted, boundary_ratio)
        iou = np.minimum(iou, _band_ious(bands, shared, rows, truth, predicted))
    hit = iou > 0.5
    rows, iou = rows[hit], iou[hit]
    found, right = np.zeros(len(truth.ids), bool), np.zeros(len(predicted.ids), bool)
    found[shared.truth[rows]] = True
    right[shared.predicted[rows]] = True
    excused = _excused(shared, truth, predicted, strict)

    def count(categories, weights=None):
        return np.bincount(categories, weights, minlength=n_categories)

    matched = predicted.category[shared.predicted[rows]]
    return ImageCounts(
        tp=count(matched),
        fp=count(predicted.category[~right & ~excused]),
        fn=count(truth.category[~found & ~truth.crowd]),
        iou=count(matched, iou).astype(np.float64),
    )


def shared_pixels(
    truth_map: np.ndarray, predicted_map: np.ndarray, truth: Segments, predicted: Segments
) -> Shared:
    """The pairs that occur at any pixel, ascending by their ids."""
    # runs of one pair are counted at once: there are far fewer runs than pixels to sort
    pairs = (truth_map * ID_LIMIT + predicted_map).ravel()
    starts = np.flatnonzero(
        np.concatenate([np.ones(min(1, pairs.size), bool), pairs[1:] != pairs[:-1]])
    )
    lengths = np.diff(np.append(starts, pairs.size))
    found, index = np.unique(pairs[starts], return_inverse=True)
    pixels = np.bincount(index, lengths, minlength=len(found)).astype(np.int64)
    places = _places(found // ID_LIMIT, truth.ids), _places(found % ID_LIMIT, predicted.ids)
    return Shared(*places, pixels)


def _places(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Indices of `values` in `ids`, which hold all values except void."""
    out = np.full(len(values), NOTHING, np.intp)
    if ids.size:
        order = np.argsort(ids)
        known = values > 0
        out[known] = order[np.searchsorted(ids, values[known], sorter=order)]
    return out


def _truth_areas(shared: Shared, truth: Segments, where: str) -> np.ndarray:
    wrong = np.flatnonzero(~(truth.area > 0) & ~truth.crowd)
    if wrong.size:
        raise PermafrostError(
            f"the area of the segment {truth.ids[wrong[0]]} is {truth.area[wrong[0]]:g}",
            where=where,
            remedy="strict mode uses these areas; correct it, or use mode corrected, which counts",
        )
    return truth.area


def _ious(
    shared: Shared, truth: Segments, predicted: Segments, area: np.ndarray | None, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of one class without crowds, and their IoU; a prediction's void pixels do not count."""
    rows = _comparable(shared, truth, predicted)
    union = _unions(shared, rows, len(truth.ids), len(predicted.ids), area)
    if (union <= 0).any():
        bad = truth.ids[shared.truth[rows[union <= 0][0]]]
        raise PermafrostError(
            f"the area of the segment {bad} is far less than its pixels",
            where=where,
            remedy="correct it, or use mode corrected, which counts pixels",
        )
    return rows, shared.pixels[rows] / union


def _comparable(shared: Shared, truth: Segments, predicted: Segments) -> np.ndarray:
    rows = np.flatnonzero((shared.truth >= 0) & (shared.predicted >= 0))
    one, other = shared.truth[rows], shared.predicted[rows]
    return rows[(truth.category[one] == predicted.category[other]) & ~truth.crowd[one]]


def _unions(shared: Shared, rows, n_truth: int, n_predicted: int, area=None) -> np.ndarray:
    area = shared.areas("truth", n_truth) if area is None else area
    void = shared.sums(shared.truth == NOTHING, "predicted", n_predicted)
    other = shared.areas("predicted", n_predicted) - void
    return area[shared.truth[rows]] + other[shared.predicted[rows]] - shared.pixels[rows]


def _excused(shared: Shared, truth: Segments, predicted: Segments, strict: bool) -> np.ndarray:
    """(P,) bool: predictions mostly on void or on crowds of their class."""
    crowd = truth.crowd.copy()
    if strict:
        last = {truth.category[place]: place for place in np.flatnonzero(crowd)}
        crowd[:] = False
        crowd[list(last.values())] = True
    covers = shared.truth == NOTHING
    pairs = np.flatnonzero(~covers & (shared.predicted >= 0))
    one, other = shared.truth[pairs], shared.predicted[pairs]
    covers[pairs] = crowd[one] & (truth.category[one] == predicted.category[other])
    size = len(predicted.ids)
    return 2 * shared.sums(covers, "predicted", size) > shared.areas("predicted", size)


@dataclass(frozen=True)
class _Bands:
    """Pixel counts of the bands: shared, the truth's, and the predictions'."""

    both: Shared
    truth: Shared
    predicted: Shared


def _shared_bands(truth_map, predicted_map, truth, predicted, ratio: float) -> _Bands:
    width = band_width(truth_map.shape, ratio)
    one, other = (
        ~interior(ids.astype(np.uint32), width, ID_LIMIT) for ids in (truth_map, predicted_map)
    )
    return _Bands(
        *(
            shared_pixels(truth_map[chosen], predicted_map[chosen], truth, predicted)
            for chosen in (one & other, one, other)
        )
    )


def _band_ious(
    bands: _Bands, shared: Shared, rows: np.ndarray, truth: Segments, predicted: Segments
) -> np.ndarray:
    """Boundary IoU of the pairs `rows` of `shared`; void pixels of predictions do not count."""
    n_truth, n_predicted = len(truth.ids), len(predicted.ids)
    key = shared.truth[rows] * n_predicted + shared.predicted[rows]
    pairs = (bands.both.truth >= 0) & (bands.both.predicted >= 0)
    both = bands.both.truth[pairs] * n_predicted + bands.both.predicted[pairs]
    order = np.argsort(both)
    place = np.searchsorted(both, key, sorter=order)
    inside = np.zeros(len(key), np.int64)
    held = place < len(both)
    at = order[place[held]]
    inside[held] = np.where(both[at] == key[held], bands.both.pixels[pairs][at], 0)
    void = bands.predicted.sums(bands.predicted.truth == NOTHING, "predicted", n_predicted)
    other = bands.predicted.areas("predicted", n_predicted) - void
    area = bands.truth.areas("truth", n_truth)
    union = area[shared.truth[rows]] + other[shared.predicted[rows]] - inside
    return divide(inside, union)
