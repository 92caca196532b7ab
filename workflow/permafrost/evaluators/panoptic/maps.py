"""The image part of COCO's panoptic format: a label map per image, read one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from permafrost.core.errors import PermafrostError, first_line
from permafrost.core.inputs import check_folder, check_regular
from permafrost.data.files.opening import UnreadableImage, open_picture
from permafrost.evaluators.panoptic.entries import ID_LIMIT, VOID, Entry


def read_map(masks, entry: Entry) -> tuple[np.ndarray, str]:
    """(H, W) int64 segment ids of the image of `entry`, 0 for void, and a name for messages.

    Parameters
    ----------
    masks : folder of RGB images with id = R + 256 G + 65536 B, named by ``file_name``; or a mapping
        of image ids to arrays, (H, W) of ids or (H, W, 3) uint8 of colours.

    Raises
    ------
    PermafrostError : the map is missing or has another form; its size differs from the JSON's; ids
        in the map that are not in the JSON, or the reverse.
    """
    if isinstance(masks, Mapping):
        ids, where = _given(masks, entry), f"label map of image {entry.image!r}"
    else:
        check_folder(masks)
        ids, where = _read(Path(masks), entry)
    if entry.size is not None and ids.shape != entry.size:
        raise PermafrostError(
            f"the map is {_size(ids.shape)} pixels large, by the JSON {_size(entry.size)}",
            where=where,
            remedy="give maps of the size of the image",
        )
    _check_ids(ids, entry, where)
    return ids, where


def check_sizes(truth: np.ndarray, predicted: np.ndarray, where: str) -> None:
    """Refuse two maps of different sizes."""
    if truth.shape != predicted.shape:
        raise PermafrostError(
            f"the map is {_size(predicted.shape)} pixels large, the truth {_size(truth.shape)}",
            where=where,
            remedy="give predictions of the size of the truth",
        )


def map_path(folder: Path, entry: Entry) -> Path:
    """Path of the label map of `entry`.

    Raises
    ------
    PermafrostError : the entry has no ``file_name``.
    """
    if not isinstance(entry.file_name, str) or not entry.file_name:
        raise PermafrostError("file_name is missing", where=entry.where, remedy="name the PNG file")
    return folder / entry.file_name


def _read(folder: Path, entry: Entry) -> tuple[np.ndarray, str]:
    path = map_path(folder, entry)
    where = f"{path} (of {entry.where})"
    check_regular(path)
    if not path.is_file():
        raise PermafrostError(
            "there is no such file", where=where, remedy="check the folder of the PNG files"
        )

    try:
        with open_picture(path, "PNG") as picture:
            mode, pixels = picture.mode, np.asarray(picture)
    except UnreadableImage as error:
        raise PermafrostError(str(error), where=where, remedy=error.remedy) from error
    except Exception as error:  # Pillow raises many kinds for a broken file
        raise PermafrostError(
            f"cannot be read as an image ({first_line(error)})", where=where
        ) from error
    if mode != "RGB" or pixels.dtype != np.uint8:
        raise PermafrostError(
            f"the picture's mode is {mode}",
            where=where,
            remedy="write RGB without palette, with id = R + 256 G + 65536 B",
        )
    return _from_colours(pixels), where


def _given(masks: Mapping, entry: Entry) -> np.ndarray:
    where = f"label map of image {entry.image!r}"
    if entry.image not in masks:
        raise PermafrostError("there is no such map", where=where, remedy="give one for each image")
    pixels = np.asarray(masks[entry.image])
    if pixels.ndim == 3 and pixels.shape[2] == 3 and pixels.dtype == np.uint8:
        return _from_colours(pixels)
    if pixels.ndim != 2 or pixels.dtype.kind not in "iu" or not pixels.size:
        raise PermafrostError(
            f"the array is {pixels.dtype} of the shape {pixels.shape}",
            where=where,
            remedy="give whole numbers (H, W), or colours (H, W, 3) of uint8",
        )
    if pixels.min() < VOID or pixels.max() >= ID_LIMIT:
        raise PermafrostError(f"ids are outside of 0 to {ID_LIMIT - 1}", where=where)
    return pixels.astype(np.int64)


def _from_colours(pixels: np.ndarray) -> np.ndarray:
    red, green, blue = np.moveaxis(pixels.astype(np.int64), 2, 0)
    return red + 256 * green + 65536 * blue


def _check_ids(ids: np.ndarray, entry: Entry, where: str) -> None:
    # keep the first pixel of each run of one id: much less to sort
    flat = ids.ravel()
    found = np.unique(flat[np.concatenate([[True], flat[1:] != flat[:-1]])])
    found = found[found != VOID]
    if (unknown := np.setdiff1d(found, entry.segments.ids)).size:
        raise PermafrostError(
            f"the map holds {_some(unknown)}, which segments_info does not list",
            where=where if entry.where in where else f"{where} (of {entry.where})",
            remedy="list every segment of the map; void is 0",
        )
    if (absent := np.setdiff1d(entry.segments.ids, found)).size:
        raise PermafrostError(
            f"segments_info lists {_some(absent)}, which has no pixel in the map",
            where=where if entry.where in where else f"{where} (of {entry.where})",
            remedy="remove segments that another one covers",
        )


def _some(ids: np.ndarray) -> str:
    more = f" (and {ids.size - 1} more)" if ids.size > 1 else ""
    return f"the segment id {ids[0]}{more}"


def _size(shape: tuple[int, int]) -> str:
    return f"{shape[1]} x {shape[0]}"
