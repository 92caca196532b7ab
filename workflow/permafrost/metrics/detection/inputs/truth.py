"""Read and check COCO and LVIS ground truth."""

from __future__ import annotations

from itertools import chain
from typing import NoReturn, cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.labels.oriented import area_of
from permafrost.metrics.detection.inputs.arrays import ArrayColumns, Table, columns_of
from permafrost.metrics.detection.inputs.columns import Columns
from permafrost.metrics.detection.inputs.crown_tables import is_crown_table, truth_entries
from permafrost.metrics.detection.inputs.forms import compacted
from permafrost.metrics.detection.inputs.oriented_boxes import area_warning, read_corners, upright
from permafrost.metrics.detection.inputs.parsing import load
from permafrost.metrics.detection.inputs.plausibility import corners_warning
from permafrost.metrics.detection.inputs.tables import (
    Categories,
    Images,
    Notes,
    Reading,
    Truths,
    positions_of,
    rows_of,
    unknown_problem,
)


def read_truth(given, how: Reading) -> Truths:
    """Read ground truth.

    Parameters
    ----------
    given : path, parsed JSON, or a mapping of data frames or of mappings of columns (``images``,
        ``categories``, ``annotations``); or the columns of the annotations alone. Columns may omit
        ids, images and categories: the last two are then those that occur. Or a table in
        DeepForest's columns, see `crown_tables`.
    how : strict treats the ``ignore`` flag, and rows without a known image or category, as pycocotools does.

    Raises
    ------
    PermafrostError : an invalid entry, which the message names.
    """
    dropped: dict[str, int] = {}
    if is_crown_table(given):
        table = truth_entries(given, iou_type=how.iou_type, drop=how.drop)
        data, source = table.data, table.source
        dropped.update(table.dropped)
    else:
        data, source = load(given, "truth", check=_check_beginning)
    if isinstance(data, Table):
        data = {"annotations": data}
    if not isinstance(data, dict):
        _refuse_other(source)
    data = _completed(data, source, how.drop)
    for section in ("images", "annotations"):
        if section not in data:
            raise PermafrostError(f"has no {section}", where=source, remedy="write COCO JSON")
    sections = {
        section: columns_of(data.get(section, []), source, section, drop=how.drop)
        for section in ("categories", "images", "annotations")
    }
    categories = _categories(sections["categories"], how)
    if "categories" not in data if how.strict else how.use_categories and not len(categories):
        _refuse_no_categories(source, how)
    images = _images(sections["images"], categories, how)
    truths = _annotations(sections["annotations"], images, categories, how)
    for columns in sections.values():
        dropped.update(columns.dropped)
    truths.notes.dropped.update(dropped)
    if truths.corners is None:
        truths.notes.warnings.extend(
            corners_warning(truths.boxes, truths.image, images, f"{source}: annotations")
        )
    return truths


def _check_beginning(text: str, source: str) -> None:
    """Refuse a list before it is parsed, since parsing a large file is slow."""
    if text[:1] == "[":
        _refuse_other(source)


def _refuse_other(source: str) -> NoReturn:
    raise PermafrostError(
        "ground truth must be an object with images, categories and annotations",
        where=source,
        remedy="write COCO JSON; a list of detections is what predictions are",
    )


def _refuse_no_categories(source: str, how: Reading) -> NoReturn:
    # pycocotools always needs the list, but it may be empty
    raise PermafrostError(
        "the ground truth has no categories",
        where=source,
        remedy="add them, as a list of objects with id and name"
        + (", or evaluate without categories" if not how.strict else ""),
    )


def _completed(data: dict, source: str, drop: bool) -> dict:
    """Add ids of annotations, and the images and categories that occur, if columns omit them."""
    table = data.get("annotations")
    if not isinstance(table, Table):
        return data
    data = dict(data)
    if "id" not in table.columns:
        ids = np.arange(1, len(table) + 1)
        table = data["annotations"] = Table({**table.columns, "id": ids}, table.where)
    columns = ArrayColumns(table, source, "annotations", drop=drop)
    for section, key in (("images", "image_id"), ("categories", "category_id")):
        if section not in data and key in table.columns:
            ids = columns.identities(key)[~columns.bad]
            data[section] = Table({"id": np.unique(ids)}, f"{source}: {section}")
    return data


def _images(columns: Columns, categories: Categories, how: Reading) -> Images:
    needs_size = how.by_mask
    ids = columns.identities("id")
    columns.unique(ids, "id")
    sizes = [columns.numbers(key, required=needs_size, missing=0.0) for key in ("width", "height")]
    for key, size in zip(("width", "height"), sizes, strict=True):
        wrong = (size != np.floor(size)) | (size < needs_size)
        columns.refuse(np.flatnonzero(wrong), f"{key} is not a whole number of pixels", key=key)
    columns.refuse(
        np.flatnonzero(sizes[0] * sizes[1] >= 1 << 32), "has more pixels than 32 bits can count"
    )
    keep = np.flatnonzero(~columns.bad)
    order = keep[np.argsort(ids[keep], kind="stable")]
    lists = {}
    if how.lvis:
        lists = {
            name: _category_lists(columns, key, categories, order)
            for name, key in (
                ("negative", "neg_category_ids"),
                ("not_exhaustive", "not_exhaustive_category_ids"),
            )
        }
    return Images(ids[order], *(size[order].astype(np.int64) for size in sizes), **lists)


def _category_lists(columns: Columns, key: str, categories: Categories, order) -> list:
    values, present = columns.raw(key)
    lists = [values[row] if present[row] else [] for row in order]
    for row, ids in zip(order, lists, strict=True):
        if not isinstance(ids, list | tuple) or not {*map(type, ids)} <= {int}:
            raise PermafrostError(
                f"{key} is not a list of category ids", where=columns.where(int(row))
            )
    found = positions_of(categories.ids, np.array([*chain.from_iterable(lists)], np.int64))
    image = np.repeat(np.arange(len(lists)), [*map(len, lists)])
    # LVIS may list categories that the evaluated set lacks: they have no detections to exclude
    known, count = found >= 0, max(len(categories), 1)
    image, found = np.divmod(np.unique(image[known] * count + found[known]), count)
    ends = np.searchsorted(image, np.arange(1, len(lists)))
    # without images, one part remains
    return np.split(found, ends)[: len(lists)]


def _categories(columns: Columns, how: Reading) -> Categories:
    ids = columns.identities("id")
    columns.unique(ids, "id")
    names, present = columns.raw("name", required=False)
    frequencies: list | tuple[str, ...] | None
    frequencies = columns.raw("frequency", required=False)[0] if how.lvis else None
    keep = np.flatnonzero(~columns.bad)
    order = keep[np.argsort(ids[keep], kind="stable")]
    words = tuple(str(names[i]) if present[i] else str(ids[i]) for i in order)
    if how.lvis:
        frequencies = tuple(
            f if f in ("r", "c", "f") else "" for f in (frequencies[i] for i in order)
        )
    return Categories(ids[order], words, cast(tuple[str, ...] | None, frequencies))


def _annotations(columns: Columns, images: Images, categories: Categories, how: Reading) -> Truths:
    ids = columns.identities("id")
    columns.unique(ids, "id")
    image = _known(columns, "image_id", images.ids, "the images", how.strict)
    category = np.zeros(len(columns), np.int64)
    if len(categories) or how.use_categories or how.strict:
        category = _known(columns, "category_id", categories.ids, "the categories", how.strict)
    boxes, corners, said = _boxes(columns, how)
    areas, derived = _areas(columns, boxes, corners, how.by_mask)
    crowd = columns.flags("iscrowd") == 1
    ignored = base_ignore(columns.flags("ignore"), crowd, how.iou_type, how.strict, how.lvis)
    segmentations = keypoints = None
    if how.by_mask:
        segmentations = compacted(columns.raw("segmentation")[0])
    if how.iou_type == "keypoints":
        keypoints, ignored = _keypoints(columns, boxes, ignored, how.joints)
    if how.lvis:
        crowd = np.zeros(len(columns), bool)
    truths = Truths(
        source=columns.source,
        images=images,
        categories=categories,
        entries=np.arange(len(columns)),
        ids=ids,
        image=image,
        category=category,
        boxes=boxes,
        areas=areas,
        crowd=crowd,
        ignored=ignored,
        segmentations=segmentations,
        keypoints=keypoints,
        corners=corners,
        notes=Notes(warnings=said + derived),
    )
    keep = ~columns.bad
    return truths if keep.all() else rows_of(truths, keep)


def _boxes(columns: Columns, how: Reading) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """(N, 4) upright boxes, (N, 4, 2) corners of oriented ones if these are compared, and warnings."""
    if how.oriented:
        corners, said = read_corners(columns, how.box_convention)
        return upright(corners), corners, said
    boxes, _ = columns.vectors("bbox", 4, required=how.iou_type == "bbox")
    columns.refuse(
        np.flatnonzero((boxes[:, 2:] < 0).any(axis=1)), "the box has a negative size", key="bbox"
    )
    return boxes, None, []


def _areas(
    columns: Columns, boxes: np.ndarray, corners: np.ndarray | None, by_mask: bool
) -> tuple[np.ndarray, list[str]]:
    """(N,) areas, with a warning if some are missing.

    A missing area is the box's; if masks are compared it is NaN until they are read.
    """
    areas = columns.numbers("area", required=False)
    columns.refuse(np.flatnonzero(areas < 0), "the area is negative", key="area")
    missing = np.isnan(areas) & ~columns.bad
    if corners is not None:
        # the area of an oriented box is never guessed, so that none need be written
        return np.where(missing, area_of(corners), areas), area_warning(columns, areas, corners)
    if not missing.any():
        return areas, []
    if not by_mask:
        areas = np.where(missing, boxes[:, 2] * boxes[:, 3], areas)
        columns.refuse(np.flatnonzero(missing & np.isnan(areas)), "has neither area nor bbox")
    return areas, [
        f"{columns.source}: {np.count_nonzero(missing)} annotations have no area; the area of their"
        f" {'mask' if by_mask else 'box'} is used"
    ]


def base_ignore(flags, crowd, iou_type: str, strict: bool, lvis: bool) -> np.ndarray:
    """(N,) bool: which truths never count.

    pycocotools overwrites an explicit ``ignore`` with ``iscrowd``, boundary-iou-api uses either,
    LVIS has no crowds. Corrected: an explicit flag decides; without one, crowds are ignored.
    """
    if lvis:
        return flags == 1
    if strict:
        return crowd | (flags == 1) if iou_type == "boundary" else crowd.copy()
    return np.where(flags >= 0, flags == 1, crowd)


def _known(columns: Columns, key: str, known: np.ndarray, whose: str, strict: bool) -> np.ndarray:
    """(N,) positions among the `known` ids. Unknown ids are refused or, if `strict`, omitted as in pycocotools."""
    ids = columns.identities(key)
    found = positions_of(known, ids)
    unknown = np.flatnonzero(found < 0)
    problem = unknown_problem(key, ids, known, whose)
    if strict:
        columns.pass_over(unknown, problem)
    else:
        columns.refuse(unknown, problem, key=key)
    return found


def _keypoints(columns: Columns, boxes, ignored, joints: int) -> tuple[np.ndarray, np.ndarray]:
    flat, _ = columns.vectors("keypoints", 3 * joints)
    keypoints = flat.reshape(-1, joints, 3)
    labelled = columns.numbers("num_keypoints")
    invisible = ~(keypoints[:, :, 2] > 0).any(axis=1)
    # without a visible point, OKS uses the distance to the box
    columns.refuse(
        np.flatnonzero(invisible & np.isnan(boxes).any(axis=1)),
        "has neither visible keypoints nor a bbox",
    )
    return keypoints, ignored | (labelled == 0)
