"""COCO and LVIS ground truth, read and checked."""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError

from .columns import Columns
from .compressed import compacted
from .crown_tables import is_crown_table, truth_entries
from .parsing import load
from .plausibility import corners_warning
from .tables import Categories, Images, Notes, Truths, positions_of, rows_of


def read_truth(
    given,
    *,
    iou_type: str,
    strict: bool = False,
    lvis: bool = False,
    use_categories: bool = True,
    joints: int = 17,
    drop: bool = False,
) -> Truths:
    """Read ground truth.

    Parameters
    ----------
    given : path, parsed JSON, or a mapping of data frames (``images``, ``categories``,
        ``annotations``); or a table in DeepForest's columns, see `crown_tables`.
    iou_type : decides which geometry must be there.
    strict : treat the ``ignore`` flag, and what belongs to no image or category, as the peers do.
    joints : number of keypoints of an object.
    drop : leave wrong entries out and count them.

    Raises
    ------
    PermafrostError : a wrong entry, by name.
    """
    dropped: dict[str, int] = {}
    if is_crown_table(given):
        table = truth_entries(given, iou_type=iou_type, drop=drop)
        data, source = table.data, table.source
        dropped.update(table.dropped)
    else:
        data, source = load(given, "truth")
    if not isinstance(data, dict):
        raise PermafrostError(
            "ground truth must be an object with images, categories and annotations",
            where=source,
            remedy="write COCO JSON",
        )
    for section in ("images", "annotations"):
        if section not in data:
            raise PermafrostError(f"has no {section}", where=source, remedy="write COCO JSON")
    categories = _categories(data.get("categories", []), source, lvis, drop, dropped)
    needs_size = iou_type in ("segm", "boundary")
    images = _images(data["images"], categories, source, lvis, needs_size, drop, dropped)
    columns = Columns(data["annotations"], source, "annotations", drop=drop)
    truths = _annotations(
        columns, images, categories, iou_type, strict, lvis, use_categories, joints
    )
    dropped.update(columns.dropped)
    truths.notes.dropped.update(dropped)
    truths.notes.warnings.extend(
        corners_warning(truths.boxes, truths.image, images, f"{source}: annotations")
    )
    return truths


def _images(entries, categories, source, lvis, needs_size, drop, dropped) -> Images:
    columns = Columns(entries, source, "images", drop=drop)
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
    if lvis:
        lists = {
            name: _category_lists(columns, key, categories, order)
            for name, key in (
                ("negative", "neg_category_ids"),
                ("not_exhaustive", "not_exhaustive_category_ids"),
            )
        }
    dropped.update(columns.dropped)
    return Images(ids[order], *(size[order].astype(np.int64) for size in sizes), **lists)


def _category_lists(columns: Columns, key: str, categories: Categories, order) -> list:
    values, present = columns.raw(key)
    out = []
    for row in order:
        ids = values[row] if present[row] else []
        if not isinstance(ids, list | tuple) or not all(type(i) is int for i in ids):
            raise PermafrostError(
                f"{key} is not a list of category ids", where=columns.where(int(row))
            )
        found = positions_of(categories.ids, np.array(ids, np.int64))
        # LVIS lists what the evaluated set need not have: such a category has no cell to protect
        out.append(np.unique(found[found >= 0]))
    return out


def _categories(entries, source, lvis, drop, dropped) -> Categories:
    columns = Columns(entries, source, "categories", drop=drop)
    ids = columns.identities("id")
    columns.unique(ids, "id")
    names, present = columns.raw("name", required=False)
    frequencies = columns.raw("frequency", required=False)[0] if lvis else None
    keep = np.flatnonzero(~columns.bad)
    order = keep[np.argsort(ids[keep], kind="stable")]
    dropped.update(columns.dropped)
    words = tuple(str(names[i]) if present[i] else str(ids[i]) for i in order)
    if lvis:
        frequencies = tuple(
            f if f in ("r", "c", "f") else "" for f in (frequencies[i] for i in order)
        )
    return Categories(ids[order], words, frequencies)


def _annotations(
    columns: Columns,
    images: Images,
    categories: Categories,
    iou_type: str,
    strict: bool,
    lvis: bool,
    use_categories: bool,
    joints: int,
) -> Truths:
    ids = columns.identities("id")
    columns.unique(ids, "id")
    image = positions_of(images.ids, columns.identities("image_id"))
    if len(categories) or use_categories or strict:
        category = positions_of(categories.ids, columns.identities("category_id"))
    else:
        category = np.zeros(len(columns), np.int64)
    _check_known(columns, image, category, strict)
    boxes, _ = columns.vectors("bbox", 4, required=iou_type == "bbox")
    columns.refuse(
        np.flatnonzero((boxes[:, 2:] < 0).any(axis=1)), "the box has a negative size", key="bbox"
    )
    areas, derived = _areas(columns, boxes, iou_type)
    crowd = columns.flags("iscrowd") == 1
    ignored = base_ignore(columns.flags("ignore"), crowd, iou_type, strict, lvis)
    segmentations = keypoints = None
    if iou_type in ("segm", "boundary"):
        segmentations = compacted(columns.raw("segmentation")[0])
    if iou_type == "keypoints":
        keypoints, ignored = _keypoints(columns, boxes, ignored, joints)
    if lvis:
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
        notes=Notes(warnings=derived),
    )
    keep = ~columns.bad
    return truths if keep.all() else rows_of(truths, keep)


def _areas(columns: Columns, boxes: np.ndarray, iou_type: str) -> tuple[np.ndarray, list[str]]:
    """(N,) areas, with a warning where some are not given.

    A missing area is that of the box, or NaN where masks are compared, which tell it when they are read.
    """
    areas = columns.numbers("area", required=False)
    columns.refuse(np.flatnonzero(areas < 0), "the area is negative", key="area")
    missing = np.isnan(areas) & ~columns.bad
    if not missing.any():
        return areas, []
    by_mask = iou_type in ("segm", "boundary")
    if not by_mask:
        areas = np.where(missing, boxes[:, 2] * boxes[:, 3], areas)
        columns.refuse(np.flatnonzero(missing & np.isnan(areas)), "has neither area nor bbox")
    return areas, [
        f"{columns.source}: {np.count_nonzero(missing)} annotations have no area; the area of their"
        f" {'mask' if by_mask else 'box'} is used"
    ]


def base_ignore(flags, crowd, iou_type: str, strict: bool, lvis: bool) -> np.ndarray:
    """(N,) bool: which truths never count.

    pycocotools overwrites an explicit ``ignore`` with ``iscrowd``, boundary-iou-api takes either,
    LVIS knows no crowds; corrected: an explicit flag decides, a crowd is ignored without one.
    """
    if lvis:
        return flags == 1
    if strict:
        return crowd | (flags == 1) if iou_type == "boundary" else crowd.copy()
    return np.where(flags >= 0, flags == 1, crowd)


def _check_known(columns: Columns, image, category, strict: bool) -> None:
    """Rows that belong to no image or no category: the peers pass over them, we refuse them."""
    unknown = (
        (image < 0, "image_id is not among the images", "image_id"),
        (category < 0, "category_id is not among the categories", "category_id"),
    )
    for rows, problem, key in unknown:
        if strict:
            columns.pass_over(np.flatnonzero(rows), problem)
        else:
            columns.refuse(np.flatnonzero(rows), problem, key=key)


def _keypoints(columns: Columns, boxes, ignored, joints: int) -> tuple[np.ndarray, np.ndarray]:
    flat, _ = columns.vectors("keypoints", 3 * joints)
    keypoints = flat.reshape(-1, joints, 3)
    labelled = columns.numbers("num_keypoints")
    invisible = ~(keypoints[:, :, 2] > 0).any(axis=1)
    # without a visible point, the distance to the box is what counts
    columns.refuse(
        np.flatnonzero(invisible & np.isnan(boxes).any(axis=1)),
        "has neither visible keypoints nor a bbox",
    )
    return keypoints, ignored | (labelled == 0)
