"""Panoptic quality of predictions against truth, image by image."""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.evaluators.panoptic.entries import read_predictions, read_truth
from permafrost.evaluators.panoptic.maps import check_sizes, read_map
from permafrost.evaluators.panoptic.matching import ImageCounts, match_image
from permafrost.evaluators.panoptic.result import PanopticEvaluation

MODES = ("corrected", "strict")
# bytes of the counts per image and category
_MOST_BYTES = 4 * 10**9


def evaluate(
    truth: tuple,
    predictions: tuple,
    *,
    mode: str = "corrected",
    boundary_ratio: float | None = None,
) -> PanopticEvaluation:
    """Match all segments; only the two maps of one image are in memory at a time.

    Parameters
    ----------
    truth, predictions : (JSON, maps) each. JSON is the path of a file in COCO's panoptic format, or
        its parsed content: ``annotations`` with ``image_id``, ``file_name`` and ``segments_info``;
        the truth also has ``images`` and ``categories`` with ``isthing``. Maps are a folder of RGB
        images (id = R + 256 G + 65536 B, void 0), or a mapping of image ids to arrays, (H, W) of
        ids or (H, W, 3) of colours.
    mode : ``corrected`` counts the pixels of true segments, and all crowds of a class can excuse
        its false alarms; ``strict`` follows panopticapi: areas of true segments are from the JSON,
        and only the last crowd of a class excuses false alarms.
    boundary_ratio : width of the bands as a share of the image's diagonal, for boundary PQ.

    Raises
    ------
    PermafrostError : invalid input; the message names the file and the entry.
    """
    look_up(MODES, mode, "there is no mode")
    if boundary_ratio is not None and not 0 < boundary_ratio < 1:
        raise PermafrostError(
            f"a boundary ratio of {boundary_ratio:g} is not a share of the diagonal",
            remedy="give a number between 0 and 1, such as 0.02",
        )
    (document, masks), (other_document, other_masks) = truth, predictions
    categories, entries = read_truth(document)
    others = read_predictions(other_document, categories, entries)
    size = len(categories.ids)
    if (needed := 32 * size * len(entries)) > _MOST_BYTES:
        raise PermafrostError(
            f"the counts of {size} categories in {len(entries)} images would take {needed / 1e9:.1f} GB"
            " of memory",
            where="categories",
            remedy="leave out categories that do not occur",
        )
    digests = hashlib.sha256(), hashlib.sha256()
    counts = [
        _match(
            (entry, other), (masks, other_masks), digests, size, mode == "strict", boundary_ratio
        )
        for entry, other in zip(entries, others, strict=True)
    ]
    sums = {
        name: np.stack([getattr(count, name) for count in counts])
        for name in ("tp", "fp", "fn", "iou")
    }
    images = tuple(entry.image for entry in entries)
    return PanopticEvaluation(
        images,
        categories,
        **sums,
        mode=mode,
        boundary_ratio=boundary_ratio,
        digests=cast("tuple[str, str]", tuple(digest.hexdigest() for digest in digests)),
    )


def _match(entries, masks, digests, size: int, strict: bool, ratio: float | None) -> ImageCounts:
    """Match one image; entries, folders and running digests are pairs of truth and predictions."""
    maps: tuple[np.ndarray, np.ndarray]
    maps, (_, where) = zip(*map(read_map, masks, entries), strict=True)
    check_sizes(*maps, where)
    for digest, ids in zip(digests, maps, strict=True):
        digest.update(repr(ids.shape).encode() + ids.astype("<u4").tobytes())
    truth, predicted = entries
    return match_image(
        maps,
        truth.segments,
        predicted.segments,
        size,
        strict=strict,
        boundary_ratio=ratio,
        where=truth.where,
    )
