"""Detections in COCO's results format, read and checked."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import area_of
from permafrost.metrics.detection.inputs.arrays import columns_of
from permafrost.metrics.detection.inputs.columns import Columns
from permafrost.metrics.detection.inputs.crown_tables import is_crown_table, prediction_entries
from permafrost.metrics.detection.inputs.forms import compacted
from permafrost.metrics.detection.inputs.oriented_boxes import read_corners, upright
from permafrost.metrics.detection.inputs.parsing import is_path, load
from permafrost.metrics.detection.inputs.plain import plain_columns
from permafrost.metrics.detection.inputs.plausibility import detection_warnings
from permafrost.metrics.detection.inputs.tables import (
    Detections,
    Notes,
    Reading,
    Truths,
    positions_of,
    rows_of,
    unknown_problem,
)

# detections whose keypoints are processed at once
_BLOCK = 1 << 12


def read_predictions(given, truths: Truths, how: Reading, *, judged: bool = True) -> Detections:
    """Read detections on the images of `truths`.

    Parameters
    ----------
    given : path, parsed JSON (a list, empty is fine), or a data frame with a row per detection; or a
        table in DeepForest's columns, see `crown_tables`.
    how : strict follows pycocotools' loadRes: the first entry decides the type of the file, a box replaces a
        missing mask, unknown categories are ignored (and counted).
    judged : add `plausibility.detection_warnings`; parts of a whole are checked later, together.

    Raises
    ------
    PermafrostError : an invalid entry, which the message names.
    """
    columns = detection_columns(given, how.drop)
    if is_crown_table(given):
        _check_names(columns, truths)
    ids = columns.identities("image_id")
    image = positions_of(truths.images.ids, ids)
    columns.refuse(
        np.flatnonzero(image < 0),
        unknown_problem("image_id", ids, truths.images.ids, "the images of the truth"),
        key="image_id",
        remedy="evaluate against the ground truth that contains this image",
    )
    category = _category(columns, truths, how)
    scores = columns.numbers("score")
    geometry, said = _oriented(columns, how) if how.oriented else (_geometry(columns, how), [])
    notes = Notes(warnings=said)
    detections = Detections(
        source=columns.source,
        entries=np.arange(len(columns)),
        ids=_ids(columns, how.strict, notes),
        image=image,
        category=category,
        scores=scores,
        **geometry,
        notes=notes,
    )
    keep = ~columns.bad
    detections = detections if keep.all() else rows_of(detections, keep)
    detections.notes.dropped.update(columns.dropped)
    if judged:
        detections.notes.warnings.extend(detection_warnings(detections, truths.images))
    return detections


def _check_names(columns: Columns, truths: Truths) -> None:
    """Refuse truth with numeric image ids if the predictions are a table, which has image names."""
    if len(columns) and len(truths.images) and truths.images.ids.dtype.kind != "U":
        raise PermafrostError(
            "the table names images, but the truth numbers them",
            where=columns.source,
            remedy="give truth and predictions both as CSV, or both as JSON",
        )


def detection_columns(given, drop: bool) -> Columns:
    """Load the entries of detections in any format, unchecked."""
    if is_crown_table(given):
        table = prediction_entries(given, drop=drop)
        columns = Columns(table.data, table.source, "", drop=drop)
        columns.dropped.update(table.dropped)
        return columns
    if is_path(given):
        plain = plain_columns(given, drop=drop)
        if plain is not None:
            return plain
    data, source = load(given, "predictions", check=None if drop else _check_beginning)
    if isinstance(data, dict):
        _refuse_object(source)
    return columns_of(data, source, "", drop=drop)


def _check_beginning(text: str, source: str) -> None:
    """Refuse a file of another structure before it is parsed, since parsing a large file is slow."""
    if text[:1] == "{":
        _refuse_object(source)
    if text == "[[":
        raise PermafrostError(
            "must be a list of objects, not of lists",
            where=source,
            remedy='write {"image_id": …, "category_id": …, "bbox": [x, y, width, height], "score": …} for'
            " each detection; rows of numbers can be given to evaluate() in Python, as an array (see there)",
        )


def _refuse_object(source: str) -> NoReturn:
    raise PermafrostError(
        "predictions must be a list with an object per detection, not an object",
        where=source,
        remedy="pass the list of detections (COCO's results format); an object with images and"
        " annotations is ground truth",
    )


def _category(columns: Columns, truths: Truths, how: Reading) -> np.ndarray:
    if not (len(truths.categories) or how.use_categories or how.strict):
        return np.zeros(len(columns), np.int64)
    ids, known = columns.identities("category_id"), truths.categories.ids
    category = positions_of(known, ids)
    unknown = np.flatnonzero(category < 0)
    problem = unknown_problem("category_id", ids, known, "the categories of the truth")
    if how.strict:
        columns.pass_over(unknown, problem)
    else:
        columns.refuse(unknown, problem, key="category_id")
    return category


def _ids(columns: Columns, strict: bool, notes: Notes) -> np.ndarray:
    """The detections' ids if all have one; else 1, 2, … in file order, as in pycocotools."""
    numbers = np.arange(1, len(columns) + 1)
    if not len(columns) or not columns.all_have("id"):
        given = np.count_nonzero(columns.raw("id", required=False)[1])
        if given:
            notes.warnings.append(
                f"{columns.source}: {given} of {len(columns)} detections have an id; all are numbered 1, 2, …"
                " in the order of the file"
            )
        return numbers
    if strict and not columns.are_identities("id"):
        # pycocotools ignores them
        notes.warnings.append(
            f"{columns.source}: the ids of the detections are not all different whole numbers; they are"
            " numbered 1, 2, … in the order of the file"
        )
        return numbers
    ids = columns.identities("id")
    columns.unique(ids, "id")
    return ids


def _oriented(columns: Columns, how: Reading) -> tuple[dict, list[str]]:
    """The geometry of oriented boxes, and warnings."""
    corners, said = read_corners(columns, how.box_convention)
    return {"boxes": upright(corners), "areas": area_of(corners), "corners": corners}, said


def _geometry(columns: Columns, how: Reading) -> dict:
    strict, masks = how.strict, how.by_mask
    branch = branch_of(columns) if strict else None
    boxes, has_box = columns.vectors("bbox", 4, required=branch == "bbox")
    columns.refuse(
        np.flatnonzero((boxes[:, 2:] < 0).any(axis=1)), "the box has a negative size", key="bbox"
    )
    out: dict = {}
    segmentations, has_mask = columns.raw("segmentation", required=branch == "segmentation")
    if how.iou_type == "keypoints":
        flat, _ = columns.vectors("keypoints", 3 * how.joints)
        out["keypoints"] = flat.reshape(-1, how.joints, 3)
        if branch != "bbox":
            _box_of_keypoints(
                boxes, np.ones(len(boxes), bool) if strict else ~has_box, out["keypoints"]
            )
            has_box = np.ones(len(boxes), bool)
    elif masks and not strict:
        columns.refuse(
            np.flatnonzero(~has_mask),
            "has no segmentation",
            remedy="add the mask; a box is not evaluated as a mask",
        )
    elif masks:
        segmentations = _rectangles(segmentations, has_mask, boxes)
        has_mask = np.ones(len(columns), bool)
    elif not strict or branch == "segmentation":
        columns.refuse(np.flatnonzero(~has_box & ~has_mask), "has no bbox")
    by_mask = _area_by_mask(columns, branch, how.detection_area, has_box, has_mask)
    if masks or (by_mask | ~has_box).any():
        out["segmentations"] = compacted(segmentations)
    areas = np.where(by_mask, np.nan, boxes[:, 2] * boxes[:, 3])
    return {"boxes": boxes, "areas": areas, **out}


def branch_of(columns: Columns) -> str:
    """The type of a file by its first entry: bbox, segmentation or keypoints, in pycocotools' order."""
    first = columns.first() if len(columns) else {"bbox": [0]}
    box = first.get("bbox")
    # an array has no truth value
    if box is not None and (np.size(box) if isinstance(box, np.ndarray) else box):
        return "bbox"
    for key in ("segmentation", "keypoints"):
        if key in first:
            return key
    raise PermafrostError(
        "the first detection has neither bbox, segmentation nor keypoints", where=columns.where(0)
    )


def _area_by_mask(columns, branch, detection_area, has_box, has_mask) -> np.ndarray:
    """(N,) bool: detections whose area is that of the mask."""
    if detection_area == "mask":
        columns.refuse(
            np.flatnonzero(~has_mask),
            "has no segmentation to take the area from",
            remedy="set the detection area to auto or bbox",
        )
        return np.ones(len(columns), bool)
    if detection_area == "bbox":
        columns.refuse(
            np.flatnonzero(~has_box),
            "has no bbox to take the area from",
            remedy="set the detection area to auto or mask",
        )
        return np.zeros(len(columns), bool)
    return np.full(len(columns), True) if branch == "segmentation" else ~has_box


def _box_of_keypoints(boxes: np.ndarray, rows: np.ndarray, keypoints: np.ndarray) -> None:
    """Set the boxes of `rows` to the bounding boxes of all their points, visible or not."""
    places = np.flatnonzero(rows)
    for start in range(0, len(places) if keypoints.size else 0, _BLOCK):
        some = places[start : start + _BLOCK]
        points = keypoints[some][:, :, :2]
        low, high = points[:, 0].copy(), points[:, 0].copy()
        # joint by joint: much faster in NumPy than a minimum over a short axis
        for joint in range(1, points.shape[1]):
            np.minimum(low, points[:, joint], out=low)
            np.maximum(high, points[:, joint], out=high)
        boxes[some] = np.concatenate([low, high - low], axis=1)


def _rectangles(segmentations: list, has_mask: np.ndarray, boxes: np.ndarray) -> list:
    """The segmentations, with the box as a polygon for missing masks, as in pycocotools."""
    if has_mask.all():
        return segmentations
    out = list(segmentations)
    for row in np.flatnonzero(~has_mask):
        x, y, width, height = boxes[row].tolist()
        right, bottom = x + width, y + height
        out[row] = [[x, y, x, bottom, right, bottom, right, y]]
    return out
