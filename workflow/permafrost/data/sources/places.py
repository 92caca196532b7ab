"""Annotation files: separate, one per split, or inside the directory of the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.data.digest import INSIDE
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, check_name, folder_prefix
from permafrost.data.sources.annotated import Annotated, Found
from permafrost.data.sources.reading import read_member

SPLIT = "<split>"


def annotation_files(places: str | dict[str, str]) -> list[tuple[str | None, str]]:
    """(split or None, path) of the files that an option names, sorted by split."""
    if isinstance(places, str):
        return [(None, places)]
    return [(split, places[split]) for split in sorted(places)]


def annotation_bytes(members: Members, place: str, where: object) -> bytes:
    """Content of an annotation file; names inside `members` begin with ``<path>/``.

    Raises
    ------
    PermafrostError : it does not exist, or cannot be read.
    """
    inside = place.startswith(INSIDE)
    name = place.removeprefix(INSIDE)
    if name not in members.names if inside else not Path(place).is_file():
        raise PermafrostError(
            f"{members.place} holds no {name}" if inside else f"{place} does not exist",
            where=where,
            remedy="correct the place of the annotations in source",
        )
    try:
        return read_member(members, name) if inside else Path(place).read_bytes()
    except (OSError, UnreadableImage) as error:
        raise PermafrostError(
            f"{place} cannot be read ({error})", where=where, remedy="get the file again"
        ) from error


class ImageNames:
    """Converts names in annotations to file names below ``root``, which may contain the split.

    Parameters
    ----------
    splits : whether there is one annotation file per split.
    """

    def __init__(self, members: Members, root: str, *, splits: bool, where: object) -> None:
        if SPLIT in root and not splits:
            raise PermafrostError(
                f"root {root!r} names {SPLIT}, but the annotations are in one file",
                where=where,
                remedy="name a file of annotations for each split, or correct root",
            )
        self._root, self._members, self._where = folder_prefix(root), members, where

    def image(
        self,
        name: str,
        found: Sequence[Found],
        split: str | None,
        size: tuple[int, int] | None = None,
        group: str | None = None,
        problems: Sequence[str] = (),
    ) -> Annotated:
        """The image that annotations refer to as `name`."""
        file = self._root.replace(SPLIT, str(split)) + name
        return Annotated(
            check_name(file, self._members.place, self._where), found, size, split, group, problems
        )
