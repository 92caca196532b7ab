"""Match images with other files by their names: masks, annotations, tables of points."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import Members, folder_prefix
from permafrost.data.sources.options import PairedFiles
from permafrost.data.sources.sample_images import (
    SampleImages,
    by_modality,
    check_once,
    read_dates,
)

_PLACEHOLDER = re.compile(r"<([A-Za-z_]\w*)>")
_ALTERNATIVES = re.compile(r"\{([^{}]*,[^{}]*)\}")
#: the part of a name that is the image's date
DATE = "date"
#: possible separators of ``<stem>`` and ``<date>`` if the start of the date must be recognised
_JOINTS = ("", "-", "_", ".", " ")
#: the start of 2019_05_03 or 20190503_103021 does not belong to the text before the date
_YEAR = r"(?<![0-9])(?:19|20)[0-9]{2}[-_.]"
_WHOLE_DATE = (
    rf"(?<![0-9])(?!(?<={_YEAR})(?:0[1-9]|1[0-2])(?![0-9]))"
    rf"(?!(?<={_YEAR}[0-9]{{2}}[-_.])[0-9]{{2}}(?![0-9]))"
    r"(?!(?<=[0-9]{8}[T _-])[0-9]{4}(?:[0-9]{2})?(?![0-9]))"
)


@dataclass(frozen=True)
class Pair:
    """The images of a sample, its matching file or None, and the texts of ``<…>`` in their names."""

    images: SampleImages
    companion: str | None
    parts: dict[str, str]

    @property
    def image(self) -> str:
        """The first image; the only one if a sample has one."""
        return self.images.first


@dataclass(frozen=True)
class Companions:
    """The files to match with images.

    Parameters
    ----------
    name : their name in messages: the option with their location.
    single : name of one of them in messages.
    endings : of such files in a folder, without the dot.
    """

    name: str
    single: str
    endings: Sequence[str]


def pair_files(
    members: Members,
    options: PairedFiles,
    kind: Companions | None,
    *,
    optional: bool = False,
    known: Collection[str] = (),
    modalities: Iterable[str] | None = None,
    where: object,
) -> list[Pair]:
    """Match images with their companion files; sorted by the name of the first image.

    Parameters
    ----------
    options : with ``images``, and another with the name ``kind.name``: the folder of the
        companions, which have their images' names up to the ending, or a pattern with ``<stem>``.
    kind : None if images have no companions.
    optional : whether an image may lack a companion.
    known : files with another use, which are not unexpected.
    modalities : in the order of the entry, if it has some.

    Raises
    ------
    PermafrostError : names do not determine the matches, a file has no counterpart, or there are
        other files.
    """
    places = by_modality(options.images, modalities)
    slots = [(name, i) for name, texts in places.items() for i in range(len(texts))]
    texts: dict[tuple[str | None, int] | str, str] = {
        slot: places[slot[0]][slot[1]] for slot in slots
    }
    patterns: dict[tuple[str | None, int] | str, re.Pattern] = {
        slot: name_pattern(text, options.extensions, where) for slot, text in texts.items()
    }
    if kind is not None:
        # a file that could be either, such as a_mask.png, is a companion
        texts = {kind.name: getattr(options, kind.name), **texts}
        patterns = {
            kind.name: name_pattern(texts[kind.name], kind.endings, where),
            **patterns,
        }
    names = _common_parts(patterns, texts, slots[0], where)
    found, others = _sorted_files(members, folder_prefix(options.root), patterns, names, where)
    _check_all_alike(members, found, texts, slots, where)
    if kind is not None:
        _check_all_paired(members, found, texts, slots[0], kind, optional, where)
    if options.other_files != "ignore":
        _check_others(members, [name for name in others if name not in known], kind, where)
    order = read_dates(
        (date for slot in slots for dates in found[slot].values() for date in dates if date),
        what="<date>",
        where=f"{where}: {members.place}",
    )
    order[""] = ("", None)
    companions = found[kind.name] if kind is not None else {}
    pairs = []
    for key in found[slots[0]]:
        files, dates = [], []
        for slot in slots:
            # 1 and 01 are the same number
            moments = [order[date][0] for date in found[slot][key] if date]
            check_once("/".join(key), moments, where=f"{where}: {members.place}")
        for modality, several in places.items():
            own = [(modality, i) for i in range(len(several))]
            each = [pair for slot in own for pair in _in_order(found[slot][key], order)]
            files.append(tuple(file for file, _ in each))
            series = len(several) > 1 or DATE in patterns[own[0]].groupindex
            dates.append(tuple(date for _, date in each) if series else None)
        companion = companions.get(key, {}).get("")
        images = SampleImages(tuple(files), tuple(dates))
        pairs.append(Pair(images, companion, dict(zip(names, key, strict=True))))
    return sorted(pairs, key=lambda pair: pair.image)


def _in_order(files: dict[str, str], order: dict[str, tuple]) -> list[tuple[str, str | None]]:
    """(file, its date or None) for the files of a sample, sorted by date."""
    return [
        (files[text], order[text][1]) for text in sorted(files, key=lambda text: order[text][0])
    ]


def _common_parts(patterns: dict, texts: dict, first, where) -> list[str]:
    """The names in ``<…>`` that all patterns share, in the order of the first image pattern."""
    names = [name for name in patterns[first].groupindex if name != DATE]
    for each, pattern in patterns.items():
        # a companion belongs to all dates
        own = set(pattern.groupindex) - ({DATE} if isinstance(each, tuple) else set())
        if own != set(names):
            noun = "images" if isinstance(each, tuple) else each
            raise PermafrostError(
                f"images ({texts[first]}) and {noun} ({texts[each]}) do not have the same"
                " parts in <…>, so they cannot be paired",
                where=where,
                remedy="name the same parts in both",
            )
    return names


def name_pattern(text: str, endings: Sequence[str] | None, where: object) -> re.Pattern:
    """Regular expression for ``images/<stem>.png``, or for all files of a folder.

    Parameters
    ----------
    endings : of the files in a folder, without the dot; None if `text` names files.

    Raises
    ------
    PermafrostError : a part in ``<…>`` occurs twice.
    """
    names = _PLACEHOLDER.findall(text)
    if len(set(names)) < len(names):
        raise PermafrostError(
            f"{text} names a part in <…> twice", where=where, remedy="name it once"
        )
    pieces = _PLACEHOLDER.split(text.strip("/"))
    parts = [
        _literal(piece) if number % 2 == 0 else _part(piece) for number, piece in enumerate(pieces)
    ]
    if DATE in names[1:] and pieces[2 * names.index(DATE)] in _JOINTS:
        parts[2 * names.index(DATE)] += _WHOLE_DATE
    body = "".join(parts)
    last = text.strip("/").rpartition("/")[2]
    ending = f"\\.(?i:{'|'.join(map(re.escape, endings or ()))})"
    file = names and re.fullmatch(f".+{ending}", last)
    if DATE in _PLACEHOLDER.findall(last) and not file and endings is not None:
        body += ending
    elif "stem" not in names and not file and endings is not None:
        folder = "" if text.strip("/") in ("", ".") else f"{body}/"
        body = f"{folder}{_part('stem')}{ending}"
    return re.compile(body)


def _literal(text: str) -> str:
    """An expression for a text in which {a,b} stands for a or b."""
    pieces = _ALTERNATIVES.split(text)
    return "".join(
        f"(?:{'|'.join(map(re.escape, piece.split(',')))})" if number % 2 else re.escape(piece)
        for number, piece in enumerate(pieces)
    )


def _part(name: str) -> str:
    # a stem may include sub-folders, other parts are at most one folder; the split of
    # train-00000-of-00002 is train
    return f"(?P<{name}>{ {'stem': '.+', 'split': '[^/]+?'}.get(name, '[^/]+') })"


def _sorted_files(members: Members, root: str, patterns: dict, names: Sequence[str], where):
    """({kind: {parts of the name: {date or "": file}}}, unmatched files)."""
    found: dict = {kind: {} for kind in patterns}
    others = []
    for name in members.names:
        kind, match = _first_match(name, root, patterns)
        if match is None:
            others.append(name)
            continue
        files = found[kind].setdefault(tuple(match[part] for part in names), {})
        date = match.groupdict().get(DATE, "")
        if date in files:
            noun = "images" if isinstance(kind, tuple) else kind
            raise PermafrostError(
                f"{members.place} holds two {noun} of one name: {files[date]} and {name}",
                where=where,
                remedy=f"name the {noun} by a pattern with <stem> and its ending",
            )
        files[date] = name
    return found, others


def _first_match(name: str, root: str, patterns: dict[str, re.Pattern]):
    if name.startswith(root):
        for kind, pattern in patterns.items():
            match = pattern.fullmatch(name[len(root) :])
            if match:
                return kind, match
    return None, None


def _check_all_alike(members: Members, found: dict, texts: dict, slots: list, where) -> None:
    """Check that every sample has an image of each date and modality."""
    first, *others = slots
    for other in others:
        for one, two in ((first, other), (other, first)):
            lonely = [
                file
                for key in found[one]
                if key not in found[two]
                for file in _files(found, one, key)
            ]
            if lonely:
                raise PermafrostError(
                    f"{members.place} holds {len(lonely)} images ({texts[one]}) without their"
                    f" counterpart ({texts[two]}): {_few(lonely)}",
                    where=where,
                    remedy="complete or remove these files, or correct images",
                )


def _files(found: dict, kind, key: tuple[str, ...]) -> list[str]:
    return list(found[kind][key].values())


def _check_all_paired(
    members: Members, found: dict, texts: dict, first, kind: Companions, optional: bool, where
) -> None:
    images, companions = found[first], found[kind.name]
    if not images and not companions:
        raise PermafrostError(
            f"{members.place} holds neither images ({texts[first]}) nor {kind.name}"
            f" ({texts[kind.name]})",
            where=where,
            remedy=f"correct root, images and {kind.name}",
        )
    alone = [] if optional else [key for key in images if key not in companions]
    without = [key for key in companions if key not in images]
    lonely = [
        (f"images without a {kind.single}", [_files(found, first, key)[0] for key in alone]),
        (f"{kind.name} without an image", [_files(found, kind.name, key)[0] for key in without]),
    ]
    problems = [f"{len(names)} {what}: {_few(names)}" for what, names in lonely if names]
    if problems:
        raise PermafrostError(
            f"{members.place} holds {' and '.join(problems)}",
            where=where,
            remedy="complete or remove these files, or correct images"
            f" ({texts[first]}) and {kind.name} ({texts[kind.name]})",
        )


def _few(names: Sequence[str], count: int = 10) -> str:
    return f"{', '.join(names[:count])}{', …' if len(names) > count else ''}"


def _check_others(members: Members, others: list[str], kind: Companions | None, where) -> None:
    if others:
        what = "no images" if kind is None else f"neither images nor {kind.name}"
        raise PermafrostError(
            f"{members.place} holds {len(others)} files that are {what}, e.g. {', '.join(others[:5])}",
            where=where,
            remedy=f"correct images{'' if kind is None else f' and {kind.name}'}, or set other_files: ignore",
        )
