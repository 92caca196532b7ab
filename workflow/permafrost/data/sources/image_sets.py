"""Lists of images per split, as in Pascal VOC's ``ImageSets/Main``: a file per split, a stem per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from permafrost.core.errors import PermafrostError
from permafrost.core.options import LeftOut, Text
from permafrost.data.entry import Splits
from permafrost.data.files.decode import UnreadableImage
from permafrost.data.files.members import Members, folder_prefix
from permafrost.data.sources.options import PairedFiles
from permafrost.data.sources.pairing import Pair, name_pattern
from permafrost.data.sources.reading import read_member


@dataclass(frozen=True, kw_only=True)
class ListedImages(PairedFiles):
    """Images that may be assigned to splits by lists."""

    image_sets: LeftOut[Text] = None
    """Lists of images per split, such as "ImageSets/Main/<split>.txt": one name per line, without
    ending. Only lists in splits.map or splits.leave_out are used."""
    unlisted: Literal["error", "ignore"] = "error"
    """Handling of images in none of these lists."""


class ImageSets:
    """The split of each image, from lists.

    Only lists of splits that the entry maps or leaves out are used; others, such as trainval, are
    redundant. Falsy if the entry has no ``image_sets``.

    Parameters
    ----------
    files : all existing lists, used or not.
    split_of : stem -> name of its list.
    """

    def __init__(self, files: Sequence[str], split_of: dict[str, str], ignore: bool) -> None:
        self.files = frozenset(files)
        self._split_of, self._ignore = split_of, ignore

    def __bool__(self) -> bool:
        return bool(self.files)

    @classmethod
    def of(
        cls, members: Members, options: ListedImages, splits: Splits, *, where: object
    ) -> ImageSets:
        """Read the lists of an entry's pattern with ``<split>``.

        Raises
        ------
        PermafrostError : the splits do not match the data, there is no list, a list holds something
            else than stems, or an image is in two lists.
        """
        if options.image_sets is None:
            return cls([], {}, False)
        if splits.method != "given":
            raise PermafrostError(
                f"image_sets define the splits, but splits use the method {splits.method}",
                where=where,
                remedy="remove image_sets, or set splits.method: given",
            )
        lists = _lists(members, options, where)
        declared = splits.names_in_data().values()
        wanted = {*(name for names in declared for name in names), *(splits.leave_out or ())}
        split_of: dict[str, str] = {}
        for split in sorted(wanted & set(lists)):
            for stem in _stems(members, lists[split], where):
                if stem in split_of:
                    raise PermafrostError(
                        f"{stem} is listed for {split_of[stem]} and for {split}",
                        where=f"{where}: {members.place}/{lists[split]}",
                        remedy="map only disjoint lists",
                    )
                split_of[stem] = split
        return cls(list(lists.values()), split_of, options.unlisted == "ignore")

    def splits_of(self, pairs: Sequence[Pair], *, where: object) -> list[str | None]:
        """The split of each image by its list, else by ``<split>`` in its name.

        Raises
        ------
        PermafrostError : both name splits; see also `divide`.
        """
        splits = [pair.parts.get("split") for pair in pairs]
        if not self:
            return splits
        if any(split is not None for split in splits):
            raise PermafrostError(
                "both image_sets and <split> in images name the splits",
                where=where,
                remedy="use one of them",
            )
        return self.divide([pair.parts["stem"] for pair in pairs], where=where)

    def divide(self, stems: Sequence[str], *, where: object) -> list[str | None]:
        """The split of each image; None for an unlisted one if the entry ignores such images.

        Raises
        ------
        PermafrostError : a listed image does not exist, or an image is unlisted.
        """
        absent = sorted(set(self._split_of) - set(stems))
        if absent:
            raise PermafrostError(
                f"{len(absent)} images that the image sets list do not exist:"
                f" {', '.join(absent[:20])}",
                where=where,
                remedy="complete the images, or correct image_sets",
            )
        unlisted = [stem for stem in stems if stem not in self._split_of]
        if unlisted and not self._ignore:
            raise PermafrostError(
                f"{len(unlisted)} of {len(stems)} images are in no image set, e.g."
                f" {', '.join(unlisted[:5])}",
                where=where,
                remedy="map all image sets or list them under splits.leave_out, or set unlisted:"
                " ignore in source to leave these images out",
            )
        return [self._split_of.get(stem) for stem in stems]


def _lists(members: Members, options: ListedImages, where) -> dict[str, str]:
    """Split name -> file."""
    pattern, root = name_pattern(options.image_sets, None, where), folder_prefix(options.root)
    if set(pattern.groupindex) != {"split"}:
        raise PermafrostError(
            f"image_sets {options.image_sets} does not contain <split>, the name of the split",
            where=where,
            remedy='write <split> there, e.g. "ImageSets/Main/<split>.txt"',
        )
    below = [name for name in members.names if name.startswith(root)]
    matches = [(name, pattern.fullmatch(name[len(root) :])) for name in below]
    lists = {match["split"]: name for name, match in matches if match}
    if not lists:
        raise PermafrostError(
            f"{members.place} holds no {options.image_sets}",
            where=where,
            remedy="correct image_sets",
        )
    return lists


def _stems(members: Members, name: str, where) -> list[str]:
    try:
        lines = read_member(members, name).decode("utf-8-sig").splitlines()
    except (UnreadableImage, UnicodeDecodeError) as error:
        raise PermafrostError(
            f"the list cannot be read ({error})",
            where=f"{where}: {members.place}/{name}",
            remedy="repair it",
        ) from error
    stems = [line.strip() for line in lines if line.strip()]
    crowded = [stem for stem in stems if len(stem.split()) > 1]
    twice = [stem for stem, count in Counter(stems).items() if count > 1]
    if crowded or twice:
        problem = "with more than its name" if crowded else "twice"
        raise PermafrostError(
            f"lists an image {problem}: {(crowded or twice)[0]}",
            where=f"{where}: {members.place}/{name}",
            remedy="map lists of images, not those of one class, and list each image once",
        )
    return stems
