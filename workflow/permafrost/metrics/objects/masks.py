"""Masks of the objects and detections of images: read, placed, clipped, joined and compared.

All are `Masks`: runs of pixels of one image each. Runs are cut into pieces of columns where a mask is
moved or clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.objects import Objects
from permafrost.metrics.detection.masks.codec import decode, encode
from permafrost.metrics.detection.masks.pieces import Pieces, column_pieces, shared_by_pieces
from permafrost.metrics.detection.masks.polygons import merge_stretches, rasterise
from permafrost.metrics.detection.masks.runs import Masks, in_fewest, place_type
from permafrost.metrics.detection.ragged import offsets_of


def texts_of(masks: Masks) -> list[str]:
    """COCO's compressed run lengths of every mask."""
    return [code.decode("ascii") for code in encode(masks)]


def masks_of_texts(texts: Sequence[str], heights, widths) -> Masks:
    """Masks from COCO's compressed run lengths.

    Parameters
    ----------
    heights, widths : (N,) sizes of the images in pixels.

    Raises
    ------
    PermafrostError : a text is damaged, or of another size.
    """
    masks, _, problems = decode(list(texts), heights, widths)
    if problems:
        place, problem = min(problems.items())
        raise PermafrostError(f"mask {place + 1} of {len(texts)} is damaged: {problem}")
    return masks


def masks_of_objects(images: Sequence[Objects], sizes) -> Masks:
    """The masks of all objects of all images, in order: that of the annotation, else its polygons,
    rasterised as pycocotools does, else the box.

    Parameters
    ----------
    sizes : (I, 2) height and width of each image in pixels.
    """
    every = Objects.joined(images)
    sizes = np.repeat(np.asarray(sizes, np.int64).reshape(-1, 2), list(map(len, images)), axis=0)
    drawn = np.array([one is None for one in every.masks], bool)
    outlines = [
        polygon or [ring_of(box)]
        for polygon, box, use in zip(every.polygons, every.boxes, drawn, strict=True)
        if use
    ]
    texts = [one for one in every.masks if one is not None]
    return _together(
        [
            (np.flatnonzero(drawn), _rasterised(outlines, *sizes[drawn].T)),
            (np.flatnonzero(~drawn), masks_of_texts(texts, *sizes[~drawn].T)),
        ]
    )


def ring_of(box: np.ndarray) -> list[float]:
    """The corners x0, y0, x1, y1, … of a box (4,)."""
    left, top, right, bottom = box.tolist()
    return [left, top, left, bottom, right, bottom, right, top]


def _rasterised(outlines: list[list[list[float]]], heights, widths) -> Masks:
    rings = [np.asarray(ring, np.float64) for rings in outlines for ring in rings]
    owners = np.repeat(np.arange(len(outlines)), list(map(len, outlines)))
    flat = np.concatenate([np.empty(0), *rings])
    return rasterise(flat, [len(ring) // 2 for ring in rings], owners, heights, widths)


def _together(parts: list[tuple[np.ndarray, Masks]]) -> Masks:
    """One collection from parts, whose masks have these positions in it."""
    places = np.concatenate([rows for rows, _ in parts])
    return Masks.joined([masks for _, masks in parts]).take(np.argsort(places))


def masks_of_boxes(boxes: np.ndarray, heights, widths) -> Masks:
    """Filled boxes (N, 4) of corners, with pixels whose centres are inside."""
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    bounds = np.stack([widths, heights, widths, heights], axis=1)
    left, top, right, bottom = np.ceil(boxes - 0.5).astype(np.int64).clip(0, bounds).T
    count = np.where(bottom > top, np.maximum(right - left, 0), 0)
    owner = np.repeat(np.arange(len(boxes)), count)
    column = np.arange(len(owner)) - (np.cumsum(count) - count)[owner] + left[owner]
    return _of_pieces(owner, column, top[owner], bottom[owner], heights, widths)


def masks_of_rasters(rasters: Sequence[np.ndarray], corners, heights, widths) -> Masks:
    """Masks from cut-outs.

    Parameters
    ----------
    rasters : N bool arrays (h, w).
    corners : (N, 2) column and row of the upper left pixel of each in its image, which holds it.
    heights, widths : (N,) sizes of the images in pixels.
    """
    parts: list[np.ndarray] = [np.empty((0, 4), np.int64)]
    for owner, (raster, (left, top)) in enumerate(zip(rasters, corners, strict=True)):
        framed = np.zeros((raster.shape[1], raster.shape[0] + 2), np.int8)
        framed[:, 1:-1] = raster.T
        change = np.diff(framed, axis=1)
        (column, low), (_, high) = np.nonzero(change == 1), np.nonzero(change == -1)
        parts.append(np.stack([np.full_like(low, owner), column + left, low + top, high + top], 1))
    owner, column, low, high = np.concatenate(parts).T
    return _of_pieces(owner, column, low, high, heights, widths)


def moved(masks: Masks, by: np.ndarray, heights, widths) -> Masks:
    """The masks shifted into images of other sizes; pixels outside are dropped.

    Parameters
    ----------
    by : columns and rows, of all masks (2,) or each (N, 2).
    heights, widths : in pixels, of all images or each (N,).
    """
    count = len(masks)
    heights, widths = (np.broadcast_to(np.int64(side), count) for side in (heights, widths))
    owner, column, low, high = column_pieces(masks)
    shift = np.broadcast_to(np.asarray(by, np.int64), (count, 2))[owner]
    return _of_pieces(
        owner, column + shift[:, 0], low + shift[:, 1], high + shift[:, 1], heights, widths
    )


def clipped(masks: Masks, bounds: np.ndarray) -> Masks:
    """The pixels of each mask inside (N, 4) corners in whole pixels."""
    owner, column, low, high = column_pieces(masks)
    left, top, right, bottom = np.asarray(bounds, np.int64)[owner].T
    inside = (column >= left) & (column < right)
    low, high = np.maximum(low, top), np.minimum(high, bottom)
    high = np.where(inside, high, low)
    return _of_pieces(owner, column, low, high, masks.heights, masks.widths)


def united(masks: Masks, groups: Sequence[np.ndarray]) -> Masks:
    """The union of the masks of each group, which belong to one image; a mask may be in several groups."""
    rows = np.concatenate([np.empty(0, np.int64), *groups]).astype(np.int64)
    owner = np.repeat(np.arange(len(groups)), list(map(len, groups)))
    every = masks.take(rows)
    stretch = np.repeat(owner, np.diff(every.offsets))
    starts, stops, merged = merge_stretches(
        every.starts.astype(np.int64), every.stops.astype(np.int64), stretch
    )
    firsts = np.array([group[0] for group in groups], np.int64)
    lengths = np.bincount(merged, minlength=len(groups))
    return in_fewest(
        offsets_of(lengths), starts, stops, masks.heights[firsts], masks.widths[firsts]
    )


def rasters_of(masks: Masks) -> tuple[list[np.ndarray], np.ndarray]:
    """Cut-outs around the masks, the inverse of `masks_of_rasters`; an empty mask has none of 0 x 0."""
    corners = corners_of(masks).astype(np.int64)
    owner, column, low, high = column_pieces(masks)
    ends = np.searchsorted(owner, np.arange(len(masks) + 1))
    out = []
    for i, (left, top, right, bottom) in enumerate(corners.tolist()):
        own = slice(ends[i], ends[i + 1])
        change = np.zeros((right - left, bottom - top + 1), np.int8)
        change[column[own] - left, low[own] - top] += 1
        change[column[own] - left, high[own] - top] -= 1
        out.append(np.cumsum(change, axis=1)[:, : bottom - top].T.astype(bool))
    return out, corners[:, :2]


def shared_pixels(first: Masks, second: Masks, rows, others) -> np.ndarray:
    """(P,) number of common pixels of pairs of masks of equal image size."""
    return shared_by_pieces(Pieces.of(first), Pieces.of(second), rows, others)


def corners_of(masks: Masks) -> np.ndarray:
    """(N, 4) corners of the boxes around the masks; zeros for empty ones."""
    boxes = masks.boxes()
    return np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]])


def _of_pieces(owner, column, low, high, heights, widths) -> Masks:
    """Masks from pieces of columns that ascend by mask, column and row; parts outside the image are dropped."""
    heights, widths = np.asarray(heights, np.int64), np.asarray(widths, np.int64)
    tall = heights[owner]
    low, high = low.clip(0, tall), high.clip(0, tall)
    kept = (column >= 0) & (column < widths[owner]) & (high > low)
    owner, column, low, high, tall = (each[kept] for each in (owner, column, low, high, tall))
    kind = place_type(heights, widths)
    starts, stops = ((column * tall + row).astype(kind) for row in (low, high))
    lengths = np.bincount(owner, minlength=len(heights))
    return in_fewest(offsets_of(lengths), starts, stops, heights, widths)
