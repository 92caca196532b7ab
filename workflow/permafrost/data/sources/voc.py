"""Kind ``voc``: images with annotations in Pascal VOC's XML, one file per image."""

from __future__ import annotations

from permafrost.core.errors import PermafrostError
from permafrost.data.decode import UnreadableImage
from permafrost.data.files import Members, open_members
from permafrost.data.sources.annotated import Annotated, Found, ObjectSource
from permafrost.data.sources.corners import ONE_BASED, box_edges
from permafrost.data.sources.image_sets import ImageSets
from permafrost.data.sources.pairing import Companions, Pair, pair_files
from permafrost.data.sources.reading import member_size, read_member
from permafrost.data.sources.voc_file import parse_voc

ANNOTATIONS = Companions(
    "annotations", "file of annotations", ("xml",), images="JPEGImages", folder="Annotations"
)


def open_voc(entry: dict, *, where: object) -> ObjectSource:
    """Images whose objects stand in an XML file of the same name.

    Options: ``path``; ``root``; ``images`` and ``annotations`` (folders or patterns with ``<stem>``,
    see `permafrost.data.sources.pairing`; default JPEGImages and Annotations; ``<split>`` names the
    split); ``image_sets`` (a pattern of lists such as ``ImageSets/Main/<split>.txt``, which name the
    images of each split) with ``unlisted`` (error or ignore); ``corners`` (what the numbers mean,
    default one_based); ``missing`` (what an image without a file is: error or empty);
    ``extensions``, ``other_files``, ``group``, ``clip_boxes``.

    An object that is marked as difficult is a crowd: it is neither learned nor scored.
    """
    options = entry["source"]
    members = open_members(options["path"], where=where)
    sets = ImageSets.of(members, entry, where=where)
    pairs = pair_files(
        members,
        options,
        ANNOTATIONS,
        optional=options.get("missing", "error") == "empty",
        known=sets.files,
        where=where,
    )
    if sets and any("split" in pair.parts for pair in pairs):
        raise PermafrostError(
            "both image_sets and <split> in images name the splits",
            where=where,
            remedy="use one of them",
        )
    splits = [pair.parts.get("split") for pair in pairs]
    if sets:
        splits = sets.divide([pair.parts["stem"] for pair in pairs], where=where)
    problems: list[str] = []
    images = [
        _annotated(members, pair, split, options, problems)
        for pair, split in zip(pairs, splits, strict=True)
        # not listed, which the entry permits
        if not sets or split is not None
    ]
    return ObjectSource(entry, members, images, where=where, problems=problems)


def _annotated(
    members: Members, pair: Pair, split: str | None, options: dict, problems: list[str]
) -> Annotated:
    name = pair.image
    try:
        size = member_size(members, name)
        if pair.companion is None:
            return Annotated(pair.image, [], size, split)
        name = pair.companion
        file = parse_voc(read_member(members, name))
        if file.size not in (None, size):
            raise UnreadableImage(
                f"is for an image of {_shown(file.size)} pixels, but {pair.image} has {_shown(size)}"
            )
    except UnreadableImage as failure:
        problems.append(f"{name}: {failure}")
        # a size that is stated is not looked up again
        return Annotated(pair.image, [], (1, 1), split)
    boxes = box_edges(file.corners, options.get("corners", ONE_BASED)).tolist()
    found = [
        Found(name, box, f"{pair.companion}: object {number}", crowd=difficult)
        for number, (name, box, difficult) in enumerate(
            zip(file.names, boxes, file.difficult.tolist(), strict=True), start=1
        )
    ]
    return Annotated(pair.image, found, size, split)


def _shown(size: tuple[int, int]) -> str:
    return f"{size[1]} x {size[0]}"
