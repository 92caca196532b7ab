"""Convert lists of arrays per image, the input of torchmetrics' ``MeanAveragePrecision``."""

from __future__ import annotations

from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.evaluators.detection.mask import run_lengths

# columns x, y, width, height of a box from its four numbers
_BOXES = {
    "xyxy": lambda b: [b[:, 0], b[:, 1], b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]],
    "xywh": lambda b: list(b.T),
    "cxcywh": lambda b: [b[:, 0] - b[:, 2] / 2, b[:, 1] - b[:, 3] / 2, b[:, 2], b[:, 3]],
}


def from_torchmetrics(preds, target, *, box_format: str = "xyxy") -> tuple[dict, dict]:
    """Truth and predictions for `evaluate` from the arguments of torchmetrics' ``update``.

    Images get the ids 0, 1, … in their order. Categories are the labels that occur on either side.

    Parameters
    ----------
    preds : per image a mapping of ``boxes`` (N, 4) in pixels, ``scores`` (N,) and ``labels`` (N,),
        and for kernels that compare masks boolean ``masks`` (N, H, W): arrays or tensors.
    target : per image ``boxes`` (M, 4), ``labels`` (M,), optionally ``iscrowd`` (M,), ``area`` (M,)
        in square pixels (0 if unknown) and ``masks`` (M, H, W).
    box_format : ``xyxy`` (corners), ``xywh`` or ``cxcywh`` (centre and size).

    Returns
    -------
    (truth, predictions), mappings of columns. A missing area becomes that of the box or mask.

    Raises
    ------
    PermafrostError : lists of different lengths; an array that is missing or has another shape.
    """
    look_up(_BOXES, box_format, "no box_format", where="box_format")
    if len(preds) != len(target):
        raise PermafrostError(
            f"{len(preds)} images with predictions, {len(target)} with truth",
            where="preds and target",
            remedy="give both for every image, with empty arrays where there is nothing",
        )
    found = _columns(preds, "preds", box_format, ("score", "scores", np.nan))
    truth = _columns(target, "target", box_format, ("iscrowd", "iscrowd", 0), ("area", "area", 0))
    truth["area"] = np.where(truth["area"] > 0, truth["area"], np.nan)
    truth["iscrowd"] = truth["iscrowd"].astype(np.int64)
    masks = [columns.get("segmentation") for columns in (truth, found)]
    images = {"id": np.arange(len(target))}
    if any(masks):
        images |= _sizes(masks, (truth, found), len(target))
    labels = np.unique(np.concatenate([truth["category_id"], found["category_id"]]))
    return {"images": images, "categories": {"id": labels}, "annotations": truth}, found


def _columns(images, side: str, box_format: str, *others) -> dict:
    """The arrays of all images concatenated; `others` are (name here, name there, default)."""
    parts: dict[str, list] = {name: [] for name in ("image_id", "category_id", "bbox")}
    parts |= {name: [] for name, _, _ in others}
    masks: list[dict] = []
    for number, image in enumerate(images):
        where = f"{side}[{number}]"
        labels = _array(image, "labels", where)
        count = len(labels)
        has_masks = "masks" in image
        boxes = _array(image, "boxes", where) if "boxes" in image or not has_masks else None
        if boxes is None:
            boxes = np.full((count, 4), np.nan)
        boxes = boxes.reshape(-1, 4) if not boxes.size else boxes
        _check(boxes.shape == (count, 4), "boxes", boxes, (count, 4), where)
        parts["image_id"].append(np.full(count, number))
        parts["category_id"].append(labels)
        edges = _BOXES[box_format](boxes.astype(np.float64))
        parts["bbox"].append(np.stack(edges, axis=1))
        for name, key, default in others:
            given = key in image or name == "score"
            values = _array(image, key, where) if given else np.full(count, default)
            _check(values.shape == (count,), key, values, (count,), where)
            parts[name].append(values)
        if has_masks:
            pixels = _array(image, "masks", where)
            _check(pixels.ndim == 3 and len(pixels) == count, "masks", pixels, "(N, H, W)", where)
            masks += map(run_lengths, pixels)
    columns: dict[str, Any] = {
        name: np.concatenate(part) if part else np.empty(0) for name, part in parts.items()
    }
    columns["bbox"] = columns["bbox"].reshape(-1, 4)
    for name in ("image_id", "category_id"):
        if not len(columns[name]):
            columns[name] = columns[name].astype(np.int64)
    if masks:
        _check(len(masks) == len(columns["image_id"]), "masks", "some images", "all", side)
        columns["segmentation"] = masks
    return columns


def _array(image, key: str, where: str) -> np.ndarray:
    if key not in image:
        raise PermafrostError(f"has no {key}", where=where, remedy=f"give {key}, maybe empty")
    value = image[key]
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _check(right: bool, key: str, value, wanted, where: str) -> None:
    if not right:
        shape = value.shape if isinstance(value, np.ndarray) else value
        raise PermafrostError(f"{key}: {shape}, not {wanted}", where=where)


def _sizes(masks, tables, images: int) -> dict:
    """Width and height of the images, from their masks; one pixel for an image without masks."""
    sizes = np.ones((images, 2), np.int64)
    for own, columns in zip(masks, tables, strict=True):
        if own:
            sizes[columns["image_id"]] = [mask["size"] for mask in own]
    return {"height": sizes[:, 0], "width": sizes[:, 1]}
