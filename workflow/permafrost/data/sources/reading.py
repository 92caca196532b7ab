"""Reading the members of a directory or an archive: images, masks, places, groups."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace

from permafrost.core.errors import PermafrostError

from ..decode import Decoding, UnreadableImage, decode_image, image_format, tiff_place
from ..files import DirectoryMembers, Members
from ..masks import MaskCoding
from ..records import Decoded


def read_member(members: Members, name: str) -> bytes:
    """Bytes of a member; damage of the archive at this place counts as an unreadable image."""
    try:
        return members.read(name)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        archive = "" if isinstance(members, DirectoryMembers) else f" from {members.place}"
        raise UnreadableImage(f"cannot be read{archive} ({error})") from error


def read_pair(
    members: Members, image: str, mask: str, decoding: Decoding, coding: MaskCoding
) -> Decoded:
    """An image with its mask; what is wrong with the mask names the mask."""
    decoded = decode_image(read_member(members, image), decoding)
    try:
        ids = coding.read(read_member(members, mask))
    except UnreadableImage as failure:
        raise UnreadableImage(f"its mask {mask}: {failure}", remedy=failure.remedy) from failure
    return replace(decoded, mask=ids, mask_name=mask)


def locate_member(members: Members, name: str) -> tuple[float | None, float | None]:
    """lon, lat of a member that is a georeferenced TIFF; None for others."""
    data = read_member(members, name)
    if image_format(data) != "tiff":
        return None, None
    place = tiff_place(data)
    return place.lon, place.lat


def grouped(names: Sequence[str], pattern: str | None, *, where: object) -> list[str | None]:
    """The group of each sample: what the regular expression's one group finds in its name.

    Raises
    ------
    PermafrostError : it is no regular expression with one group, or does not fit a name.
    """
    if pattern is None:
        return [None] * len(names)
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise PermafrostError(
            f"group {pattern!r} is no regular expression ({error})",
            where=where,
            remedy="correct it",
        ) from error
    if expression.groups != 1:
        raise PermafrostError(
            f"group {pattern!r} has {expression.groups} groups in parentheses, not one",
            where=where,
            remedy="put the part of the name that means the group in parentheses",
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
