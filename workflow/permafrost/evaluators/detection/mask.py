"""Masks as run lengths, with the functions of `pycocotools.mask` and bit-identical results.

A mask is ``{"size": [height, width], "counts": bytes}``. Invalid input raises an error, where
pycocotools reads on (QUIRKS.md, H1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.detection.inputs.segmentations import read_masks
from permafrost.metrics.detection.kernels.bbox import box_overlap
from permafrost.metrics.detection.kernels.segm import MaskOverlap
from permafrost.metrics.detection.masks import codec
from permafrost.metrics.detection.masks.runs import Masks

__all__ = ["area", "decode", "encode", "frPyObjects", "iou", "merge", "toBbox"]


def encode(bimask: np.ndarray) -> dict | list[dict]:
    """The run lengths of (H, W) pixels, or of N masks (H, W, N); foreground is nonzero.

    Raises
    ------
    PermafrostError : pixels with another number of axes.
    """
    pixels = np.asarray(bimask)
    if pixels.ndim == 2:
        return encode(pixels[:, :, None])[0]
    if pixels.ndim != 3:
        raise PermafrostError(f"pixels must be (H, W) or (H, W, N), not {pixels.shape}")
    return _written(masks_of([run_lengths(pixels[:, :, each]) for each in range(pixels.shape[2])]))


def decode(rleObjs) -> np.ndarray:
    """(H, W) uint8 of 0 and 1, or (H, W, N) for a list; in column-major order."""
    if not isinstance(rleObjs, list):
        return decode([rleObjs])[:, :, 0]
    masks = masks_of(rleObjs)
    _check_one_size(masks)
    shape = (int(masks.heights[0]), int(masks.widths[0])) if len(masks) else (0, 0)
    out = np.zeros((*shape, len(masks)), np.uint8, order="F")
    for each in range(len(masks)):
        out[:, :, each] = masks.dense(each)
    return out


def area(rleObjs):
    """Number of foreground pixels; (N,) uint32 for a list."""
    if not isinstance(rleObjs, list):
        return area([rleObjs])[0]
    return masks_of(rleObjs).areas().astype(np.uint32)


def toBbox(rleObjs) -> np.ndarray:
    """The bounding box x, y, width, height: (4,), or (N, 4) for a list."""
    if not isinstance(rleObjs, list):
        return toBbox([rleObjs])[0]
    return masks_of(rleObjs).boxes()


def iou(dt, gt, pyiscrowd) -> np.ndarray | list:
    """(D, G) IoU of masks, or of boxes (x, y, width, height); an empty list if a side is empty.

    Parameters
    ----------
    dt, gt : lists of masks, or lists or arrays of boxes.
    pyiscrowd : (G,) whether a truth is a crowd; its IoU is divided by the detection's area.

    Raises
    ------
    PermafrostError : another number of flags than truths; invalid masks or boxes.
    """
    if not len(dt) or not len(gt):
        return []
    crowd = np.asarray(pyiscrowd, bool)
    if crowd.shape != (len(gt),):
        raise PermafrostError(f"iscrowd: {crowd.shape}, not ({len(gt)},), one for each truth")
    rows, columns = np.repeat(np.arange(len(dt)), len(gt)), np.tile(np.arange(len(gt)), len(dt))
    if isinstance(dt[0], Mapping) and isinstance(gt[0], Mapping):
        found = MaskOverlap(masks_of(dt), masks_of(gt), crowd).exact(rows, columns)
    else:
        found = box_overlap(_boxes(dt, "dt")[rows], _boxes(gt, "gt")[columns], crowd[columns])
    return found.reshape(len(dt), len(gt))


def merge(rleObjs: list, intersect=False) -> dict:
    """The union of masks of one size, or their intersection."""
    if len(rleObjs) == 1:
        return _written(masks_of(rleObjs))[0]
    if not len(rleObjs):
        return {"size": [0, 0], "counts": b""}
    pixels = decode(rleObjs)
    return cast("dict", encode(pixels.all(axis=2) if intersect else pixels.any(axis=2)))


def frPyObjects(pyobj, h: int, w: int) -> dict | list[dict]:
    """Masks of boxes, polygons or uncompressed run lengths.

    Parameters
    ----------
    pyobj : one shape for one mask, or a list or array of shapes for one mask each. Four numbers are
        a box (x, y, width, height), any other count a polygon (x, y, x, y, …).
    h, w : size of the image.
    """
    single = isinstance(pyobj, Mapping) or (len(pyobj) > 0 and np.isscalar(pyobj[0]))
    given = [_drawn(each) for each in ([pyobj] if single else pyobj)]
    if not given:
        return []
    sizes = np.full(len(given), h), np.full(len(given), w)
    masks = read_masks(given, *sizes, "pyobj[{}]".format, strict=True).masks
    found = _written(masks)
    return found[0] if single else found


def _drawn(given):
    """The argument of `read_masks`: run lengths, or a list of one polygon."""
    if isinstance(given, Mapping):
        return given
    if len(given) != 4:
        return [np.asarray(given, np.float64).tolist()]
    left, top, width, height = np.asarray(given, np.float64).tolist()
    right, bottom = left + width, top + height
    return [[left, top, left, bottom, right, bottom, right, top]]


def masks_of(rles) -> Masks:
    """The masks of run lengths, each of its own size.

    Raises
    ------
    PermafrostError : a mask without size or counts, or with invalid ones.
    """
    for place, each in enumerate(rles):
        if not isinstance(each, Mapping) or not {"size", "counts"} <= set(each):
            raise PermafrostError("is no mask with size and counts", where=f"mask {place}")
    sizes = np.array([each["size"] for each in rles], np.int64).reshape(-1, 2)
    return read_masks(
        list(rles), *cast("tuple[np.ndarray, np.ndarray]", sizes.T), "mask {}".format, strict=True
    ).masks


def run_lengths(mask: np.ndarray) -> dict:
    """COCO's uncompressed run lengths of a mask (H, W), column by column."""
    flat = np.concatenate([[False], np.asarray(mask, bool).T.ravel()])
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    counts = np.diff(np.concatenate([[0], edges, [mask.size]]))
    return {"size": [int(side) for side in mask.shape], "counts": counts.tolist()}


def _written(masks: Masks) -> list[dict]:
    sizes = np.stack([masks.heights, masks.widths], axis=1).tolist()
    pairs = zip(sizes, codec.encode(masks), strict=True)
    return [{"size": size, "counts": counts} for size, counts in pairs]


def _check_one_size(masks: Masks) -> None:
    if len({*zip(masks.heights.tolist(), masks.widths.tolist(), strict=True)}) > 1:
        raise PermafrostError("the masks have different sizes")


def _boxes(given, name: str) -> np.ndarray:
    boxes = np.asarray(given, np.float64) if not isinstance(given[0], Mapping) else np.empty(0)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise PermafrostError(
            f"{name}: either masks, or boxes (N, 4), on both sides",
            remedy="give x, y, width, height",
        )
    return boxes
