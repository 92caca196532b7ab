"""Images and the files that belong to them by their names: masks, annotations, tables of points."""

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
#: the part of a name that is the date of an image
DATE = "date"
#: what may be between ``<stem>`` and ``<date>``, where only the date itself says where it begins
_JOINTS = ("", "-", "_", ".", " ")
#: of 2019_05_03 or 20190503_103021, the start is not part of what comes before the date
_YEAR = r"(?<![0-9])(?:19|20)[0-9]{2}[-_.]"
_WHOLE_DATE = (
    rf"(?<![0-9])(?!(?<={_YEAR})(?:0[1-9]|1[0-2])(?![0-9]))"
    rf"(?!(?<={_YEAR}[0-9]{{2}}[-_.])[0-9]{{2}}(?![0-9]))"
    r"(?!(?<=[0-9]{8}[T _-])[0-9]{4}(?:[0-9]{2})?(?![0-9]))"
)


@dataclass(frozen=True)
class Pair:
    """The images of a sample, their companion or None, and what ``<…>`` stands for in their names."""

    images: SampleImages
    companion: str | None
    parts: dict[str, str]

    @property
    def image(self) -> str:
        """The first image, which is the only one where a sample has one."""
        return self.images.first


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
    kind: Companions | None,
    *,
    optional: bool = False,
    known: Collection[str] = (),
    modalities: Iterable[str] | None = None,
    where: object,
) -> list[Pair]:
    """All samples with their companions, in the order of the names of their first images.

    Parameters
    ----------
    options : with ``images``, and another that is called ``kind.name``: the folder of the companions, which have the
        names of their images up to the ending, or a pattern with ``<stem>``.
    kind : None where images have no companions.
    optional : whether an image may lack a companion.
    known : files that have another use, and so are not strange.
    modalities : in the order of the entry, where it has some.

    Raises
    ------
    PermafrostError : names do not say which belong together, something is without its counterpart,
        or there are other files.
    """
    places = by_modality(options.images, modalities)
    slots = [(name, i) for name, texts in places.items() for i in range(len(texts))]
    texts = {slot: places[slot[0]][slot[1]] for slot in slots}
    patterns = {slot: name_pattern(text, options.extensions, where) for slot, text in texts.items()}
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
            # 1 and 01 are one number
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
    """(file, its date or None) of the files of a sample by the text of their date."""
    return [
        (files[text], order[text][1]) for text in sorted(files, key=lambda text: order[text][0])
    ]


def _common_parts(patterns: dict, texts: dict, first, where) -> list[str]:
    """The names in ``<…>`` that all patterns share, in the order of the first image's."""
    names = [name for name in patterns[first].groupindex if name != DATE]
    for each, pattern in patterns.items():
        # a companion is of all dates
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
    parts = [
        re.escape(piece) if number % 2 == 0 else _part(piece) for number, piece in enumerate(pieces)
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


def _part(name: str) -> str:
    # a stem may include sub-folders, all other parts are one level or less; of train-00000-of-00002, train is the split
    return f"(?P<{name}>{ {'stem': '.+', 'split': '[^/]+?'}.get(name, '[^/]+') })"


def _sorted_files(members: Members, root: str, patterns: dict, names: Sequence[str], where):
    """({kind: {parts of the name: {date or "": file}}}, files of no kind)."""
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
    """Every sample has an image of each of several dates and modalities."""
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
