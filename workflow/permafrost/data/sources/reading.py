"""Read members of a directory or an archive: images, masks, coordinates, groups."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import cast

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.data.files.decode import (
    PICTURES,
    Decoding,
    UnreadableImage,
    exif_orientation,
    image_format,
    open_tiff,
    read_tiff,
    readable,
    tiff_place,
)
from permafrost.data.files.georeference import NOWHERE, Georeference, georeference
from permafrost.data.files.members import DAMAGED, DirectoryMembers, Members
from permafrost.data.files.opening import check_bytes, open_picture
from permafrost.data.files.windows import Window
from permafrost.data.labels.masks import MaskCoding
from permafrost.data.labels.rasters import Raster, TargetCoding
from permafrost.data.records import Decoded


def read_member(members: Members, name: str) -> bytes:
    """Content of a member; raises `UnreadableImage` if the archive is damaged there.

    Also raises it for a member that is too large: archives can expand a thousandfold.
    """
    try:
        size = members.size(name)
        check_bytes(size)
        return members.read(name)
    except MemoryError as error:
        raise UnreadableImage(
            f"holds {size / 1e9:.1f} GB, for which there is not enough memory"
        ) from error
    except (*DAMAGED, OSError) as error:
        archive = "" if isinstance(members, DirectoryMembers) else f" from {members.place}"
        raise UnreadableImage(f"cannot be read{archive} ({error})") from error


def coded(coding: MaskCoding | TargetCoding, stored: np.ndarray | Raster) -> np.ndarray:
    """(H, W) labels for stored values; errors name the mask or target."""
    with readable(f"its {coding.noun}"):
        return (
            cast("TargetCoding", coding).decode(stored)
            if isinstance(stored, Raster)
            else coding(stored)
        )


def stored_as(image: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """The image in another type; raises `UnreadableImage` if a value does not fit. None leaves it unchanged."""
    if dtype is None or image.dtype == dtype:
        return image
    with np.errstate(invalid="ignore"):
        stored = image.astype(dtype)
    if not np.array_equal(stored.astype(image.dtype), image):
        raise UnreadableImage(f"holds values that {dtype} cannot (dtype of the entry)")
    return stored


def locate_member(members: Members, name: str) -> tuple[float | None, float | None]:
    """lon, lat of a member that is a georeferenced TIFF; None for others."""
    data = read_member(members, name)
    if image_format(data) != "tiff":
        return None, None
    place = tiff_place(data)
    return place.lon, place.lat


def member_place(members: Members, name: str) -> Georeference:
    """The georeference of an image, from its header; empty if it is not a TIFF. Raises `UnreadableImage`."""
    with readable(), members.open(name) as stream:
        if image_format(stream.read(8)) != "tiff":
            return NOWHERE
    with readable(), open_tiff(members.location(name)) as dataset:
        return georeference(dataset)


def member_size(members: Members, name: str, convert: Collection[str]) -> tuple[int, int]:
    """Height and width of an image after permitted conversions, from its header; raises `UnreadableImage`."""
    with readable(), members.open(name) as stream:
        kind = image_format(stream.read(8))
        if kind in ("jpeg", "png", "bmp"):
            stream.seek(0)
            with open_picture(stream, *PICTURES) as image:
                sideways = "exif" in convert and exif_orientation(image) > 4
                return image.size if sideways else image.size[::-1]
    if kind is None:
        raise UnreadableImage("neither JPEG, PNG, BMP nor TIFF")
    with readable(), open_tiff(members.location(name)) as dataset:
        return dataset.height, dataset.width


def read_member_window(
    members: Members,
    name: str,
    decoding: Decoding,
    window: Window,
    size: tuple[int, int] | None = None,
) -> Decoded | None:
    """A window of an image if its format supports reading parts (TIFF), else None.

    Parameters
    ----------
    size : height and width that the whole image must have.
    """
    with readable():
        with members.open(name) as stream:
            if image_format(stream.read(8)) != "tiff":
                return None
        members.verify(name)
        return read_tiff(members.location(name), decoding, window, size=size)


def grouped(names: Sequence[str], pattern: str | None, *, where: object) -> list[str | None]:
    """The group of each sample: the match of the expression's group in its name.

    Raises
    ------
    PermafrostError : it is not a regular expression with one group, or does not match a name.
    """
    if pattern is None:
        return [None] * len(names)
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise PermafrostError(
            f"group {pattern!r} is not a regular expression ({error})",
            where=where,
            remedy="correct it",
        ) from error
    if expression.groups != 1:
        raise PermafrostError(
            f"group {pattern!r} has {expression.groups} groups in parentheses, not one",
            where=where,
            remedy="put the group's part of the name in parentheses",
        )
    found = [expression.search(name) for name in names]
    strangers = [
        name for name, match in zip(names, found, strict=True) if not match or not match.group(1)
    ]
    if strangers:
        raise PermafrostError(
            f"group {pattern!r} does not fit {len(strangers)} of {len(names)} names,"
            f" e.g. {strangers[0]}",
            where=where,
            remedy="correct the regular expression",
        )
    return [match.group(1) for match in found]


def finite_number(text: str, which: str, place: str) -> float:
    """A finite number from text; `which` and `place` describe it in messages. Raises
    `UnreadableImage` for other texts."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UnreadableImage(f"{which} has {text[:40]!r} {place}, which is no number")
    return value
