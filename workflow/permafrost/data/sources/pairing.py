"""Images and the files that belong to them by their names: masks, annotations, tables of points."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.data.files import Members, folder_prefix

_PLACEHOLDER = re.compile(r"<([A-Za-z_]\w*)>")


@dataclass(frozen=True, kw_only=True)
class PairedFiles:
    """Options of every kind whose files belong together by their names.

    Attributes
    ----------
    path : directory or archive.
    root : folder inside `path`.
    images : a folder, or a pattern of file names with ``<stem>``, such as ``<split>/<stem>_sat.jpg``. Parts in
        ``<…>`` are what an image and its companion have in common; ``<split>`` names the split.
    extensions : endings of images, without the dot.
    other_files : ``error``, or ``ignore`` those that are neither image nor companion.
    """

    path: str
    root: str
    extensions: list[str]
    other_files: str
    images: str | None = None


@dataclass(frozen=True)
class Pair:
    """An image, its companion (None where it has none), and what ``<…>`` stands for in their names."""

    image: str
    companion: str | None
    parts: dict[str, str]


@dataclass(frozen=True)
class Companions:
    """The files that belong to images.

    Parameters
    ----------
    name : what they are called in messages, which is the option that says where they lie.
    single : one of them, in messages.
    endings : those of companions in a folder, without the dot.
    """

    name: str
    single: str
    endings: Sequence[str]


def pair_files(
    members: Members,
    options: PairedFiles,
    kind: Companions,
    *,
    optional: bool = False,
    known: Collection[str] = (),
    where: object,
) -> list[Pair]:
    """All images with their companions, in the order of the images' names.

    Parameters
    ----------
    options : with another that is called ``kind.name``: the folder of the companions, which have the names of their
        images up to the ending, or a pattern with ``<stem>``.
    optional : whether an image may lack a companion.
    known : files that have another use, and so are not strange.

    Raises
    ------
    PermafrostError : names do not say which belong together, something is without its counterpart,
        or there are other files.
    """
    # a file that could be either, such as a_mask.png, is a companion
    texts = {kind.name: getattr(options, kind.name), "images": options.images}
    patterns = {
        kind.name: name_pattern(texts[kind.name], kind.endings, where),
        "images": name_pattern(texts["images"], options.extensions, where),
    }
    parts = {each: set(pattern.groupindex) for each, pattern in patterns.items()}
    if parts["images"] != parts[kind.name]:
        raise PermafrostError(
            f"images ({texts['images']}) and {kind.name} ({texts[kind.name]}) do not have the same"
            " parts in <…>, so that nothing says which belong together",
            where=where,
            remedy="name the same parts in both",
        )
    names = sorted(parts["images"])
    found, others = _sorted_files(members, folder_prefix(options.root), patterns, names, where)
    _check_all_paired(members, found, texts, kind, optional, where)
    if options.other_files != "ignore":
        _check_others(members, [name for name in others if name not in known], kind, where)
    chosen = sorted(found["images"].items(), key=lambda item: item[1])
    return [
        Pair(image, found[kind.name].get(key), dict(zip(names, key, strict=True)))
        for key, image in chosen
    ]


def name_pattern(text: str, endings: Sequence[str] | None, where: object) -> re.Pattern:
    """The regular expression for ``images/<stem>.png``, or for all files of a folder.

    Parameters
    ----------
    endings : those of the files of a folder, without the dot; None where `text` names files anyway.
    """
    names = _PLACEHOLDER.findall(text)
    if len(set(names)) < len(names):
        raise PermafrostError(
            f"{text} names a part in <…> twice", where=where, remedy="name it once"
        )
    pieces = _PLACEHOLDER.split(text.strip("/"))
    body = "".join(
        re.escape(piece) if number % 2 == 0 else _part(piece) for number, piece in enumerate(pieces)
    )
    if "stem" not in names and endings is not None:
        folder = "" if text.strip("/") in ("", ".") else f"{body}/"
        body = f"{folder}{_part('stem')}\\.(?i:{'|'.join(map(re.escape, endings))})"
    return re.compile(body)


def _part(name: str) -> str:
    # a stem may lie in sub-folders, all other parts are one level or less
    return f"(?P<{name}>{'.+' if name == 'stem' else '[^/]+'})"


def _sorted_files(members: Members, root: str, patterns: dict, names: Sequence[str], where):
    """({kind: {parts of the name: file}}, files of no kind)."""
    found: dict[str, dict[tuple[str, ...], str]] = {kind: {} for kind in patterns}
    others = []
    for name in members.names:
        kind, match = _first_match(name, root, patterns)
        if match is None:
            others.append(name)
            continue
        key = tuple(match[part] for part in names)
        if key in found[kind]:
            raise PermafrostError(
                f"{members.place} holds two {kind} of one name: {found[kind][key]} and {name}",
                where=where,
                remedy=f"name the {kind} by a pattern with <stem> and its ending",
            )
        found[kind][key] = name
    return found, others


def _first_match(name: str, root: str, patterns: dict[str, re.Pattern]):
    if name.startswith(root):
        for kind, pattern in patterns.items():
            match = pattern.fullmatch(name[len(root) :])
            if match:
                return kind, match
    return None, None


def _check_all_paired(
    members: Members, found: dict, texts: dict, kind: Companions, optional: bool, where
) -> None:
    images, companions = found["images"], found[kind.name]
    if not images and not companions:
        raise PermafrostError(
            f"{members.place} holds neither images ({texts['images']}) nor {kind.name}"
            f" ({texts[kind.name]})",
            where=where,
            remedy=f"correct root, images and {kind.name}",
        )
    alone = [] if optional else [images[key] for key in images if key not in companions]
    lonely = [
        (f"images without a {kind.single}", alone),
        (f"{kind.name} without an image", [companions[k] for k in companions if k not in images]),
    ]
    problems = [f"{len(names)} {what}: {_few(names)}" for what, names in lonely if names]
    if problems:
        raise PermafrostError(
            f"{members.place} holds {' and '.join(problems)}",
            where=where,
            remedy="complete or remove these files, or correct images"
            f" ({texts['images']}) and {kind.name} ({texts[kind.name]})",
        )


def _few(names: Sequence[str], count: int = 10) -> str:
    return f"{', '.join(names[:count])}{', …' if len(names) > count else ''}"


def _check_others(members: Members, others: list[str], kind: Companions, where) -> None:
    if others:
        raise PermafrostError(
            f"{members.place} holds {len(others)} files that are neither images nor {kind.name},"
            f" e.g. {', '.join(others[:5])}",
            where=where,
            remedy=f"correct images and {kind.name}, or set other_files: ignore",
        )
