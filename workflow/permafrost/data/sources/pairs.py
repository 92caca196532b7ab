"""Kind ``folder`` for segmentation: files of images and files of masks that are named alike."""

from __future__ import annotations

import re
from collections.abc import Sequence

from permafrost.core.errors import PermafrostError

from ..files import Members, open_members
from ..masks import mask_coding
from ..records import Decoded, Record
from .common import declared_bands, decoding_of, required_classes
from .reading import grouped, locate_member, read_pair

_PLACEHOLDER = re.compile(r"<([A-Za-z_]\w*)>")
_ENDINGS = ("jpg", "jpeg", "png", "tif", "tiff")
Key = tuple[str, ...]


class PairSource:
    """Images and masks that belong together by their names.

    Options: ``path``; ``root`` (folder inside it); ``images`` and ``masks``, each a folder (a pair has
    the same name in both, up to the ending) or a pattern of file names with ``<stem>``, such as
    ``masks/<stem>_mask.png``. Both may hold further parts in ``<…>`` that a pair has in common;
    ``<split>`` is one that names the split. ``group`` (a regular expression whose group in parentheses
    is the sample's group, found in the image's name); ``extensions``; ``other_files``.
    """

    task = "segmentation"

    def __init__(self, entry: dict, *, where: object) -> None:
        options = entry["source"]
        self.bands = declared_bands(entry, where=where)
        self.classes = required_classes(entry, where=where)
        self.ignore_index = entry.get("ignore_index")
        self._coding = mask_coding(entry, self.classes, where=where)
        self._decoding = decoding_of(entry, self.bands)
        if options.get("split_folders"):
            raise PermafrostError(
                "split_folders is for folders of classes",
                where=where,
                remedy='name the splits by <split>, e.g. images: "<split>/images"',
            )
        self._members = open_members(options["path"], where=where)
        pairs = _pairs(self._members, options, where)
        self._images = [image for _, image, _ in pairs]
        self._masks = [mask for _, _, mask in pairs]
        start = len(_root(options))
        names = [image[start:] for image in self._images]
        groups = grouped(names, options.get("group"), where=where)
        self._records = [
            Record(sample_id=name, split=parts.get("split"), group_id=group)
            for name, group, (parts, _, _) in zip(names, groups, pairs, strict=True)
        ]

    def records(self) -> list[Record]:
        return self._records

    def decode(self, index: int) -> Decoded:
        return read_pair(
            self._members, self._images[index], self._masks[index], self._decoding, self._coding
        )

    def locate(self, index: int) -> tuple[float | None, float | None]:
        return locate_member(self._members, self._images[index])


def _pairs(members: Members, options: dict, where) -> list[tuple[dict[str, str], str, str]]:
    """(parts of the names, image, mask) of all pairs, in the order of the images."""
    texts = {kind: options.get(kind, kind) for kind in ("images", "masks")}
    endings = options.get("extensions", _ENDINGS)
    patterns = {kind: _pattern(text, endings, where) for kind, text in texts.items()}
    parts = {kind: set(pattern.groupindex) for kind, pattern in patterns.items()}
    if parts["images"] != parts["masks"]:
        raise PermafrostError(
            f"images ({texts['images']}) and masks ({texts['masks']}) do not have the same parts"
            " in <…>, so that nothing says which belong together",
            where=where,
            remedy="name the same parts in both",
        )
    root = _root(options)
    found: dict[str, dict[Key, str]] = {"images": {}, "masks": {}}
    others = []
    for name in members.names:
        kind, match = _sort(name, root, patterns)
        if match is None:
            others.append(name)
            continue
        key = tuple(match[part] for part in sorted(parts["images"]))
        if key in found[kind]:
            raise PermafrostError(
                f"{members.place} holds two {kind} of one name: {found[kind][key]} and {name}",
                where=where,
                remedy=f"name the {kind} by a pattern with <stem> and its ending",
            )
        found[kind][key] = name
    _check_all_paired(members, found, texts, where)
    _check_others(members, others, options, where)
    chosen = sorted(found["images"].items(), key=lambda item: item[1])
    names = sorted(parts["images"])
    return [
        (dict(zip(names, key, strict=True)), image, found["masks"][key]) for key, image in chosen
    ]


def _root(options: dict) -> str:
    root = options.get("root", "").strip("/")
    return f"{root}/" if root else ""


def _sort(name: str, root: str, patterns: dict[str, re.Pattern]):
    """Whether a file is a mask or an image; one that could be either, such as a_mask.png, is a mask."""
    if name.startswith(root):
        for kind in ("masks", "images"):
            match = patterns[kind].fullmatch(name[len(root) :])
            if match:
                return kind, match
    return None, None


def _pattern(text: str, endings: Sequence[str], where) -> re.Pattern:
    """The regular expression for ``images/<stem>.png``, or for all files of a folder."""
    names = _PLACEHOLDER.findall(text)
    if len(set(names)) < len(names):
        raise PermafrostError(
            f"{text} names a part in <…> twice", where=where, remedy="name it once"
        )
    pieces = _PLACEHOLDER.split(text.strip("/"))
    body = "".join(
        re.escape(piece) if number % 2 == 0 else _part(piece) for number, piece in enumerate(pieces)
    )
    if "stem" not in names:
        folder = "" if text.strip("/") in ("", ".") else f"{body}/"
        body = f"{folder}{_part('stem')}\\.(?i:{'|'.join(map(re.escape, endings))})"
    return re.compile(body)


def _part(name: str) -> str:
    # a stem may lie in sub-folders, all other parts are one level or less
    return f"(?P<{name}>{'.+' if name == 'stem' else '[^/]+'})"


def _check_all_paired(members: Members, found: dict, texts: dict, where) -> None:
    images, masks = found["images"], found["masks"]
    if not images and not masks:
        raise PermafrostError(
            f"{members.place} holds neither images ({texts['images']}) nor masks ({texts['masks']})",
            where=where,
            remedy="correct root, images and masks",
        )
    lonely = [
        ("images without a mask", [images[key] for key in images if key not in masks]),
        ("masks without an image", [masks[key] for key in masks if key not in images]),
    ]
    problems = [
        f"{len(names)} {what}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
        for what, names in lonely
        if names
    ]
    if problems:
        raise PermafrostError(
            f"{members.place} holds {' and '.join(problems)}",
            where=where,
            remedy="complete or remove these files, or correct images"
            f" ({texts['images']}) and masks ({texts['masks']})",
        )


def _check_others(members: Members, others: list[str], options: dict, where) -> None:
    if others and options.get("other_files", "error") != "ignore":
        raise PermafrostError(
            f"{members.place} holds {len(others)} files that are neither images nor masks,"
            f" e.g. {', '.join(others[:5])}",
            where=where,
            remedy="correct images and masks, or set other_files: ignore",
        )
