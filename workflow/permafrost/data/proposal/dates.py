"""Find several images of one location: pairs and series of dates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, product

from permafrost.core.errors import PermafrostError
from permafrost.data.files.members import Members, folder_prefix
from permafrost.data.proposal.draft import (
    IMAGE_ENDINGS,
    Draft,
    class_codes,
    given_splits,
    is_image,
    is_split,
)
from permafrost.data.proposal.looks import pixel_values
from permafrost.data.sources.pairing import name_pattern
from permafrost.data.sources.sample_images import iso_date

#: words of each folder and of the file in a name
type _Words = tuple[tuple[str, ...], ...]

#: words for the two dates of a pair: unambiguous; unambiguous as a whole folder or file name; only
#: valid if labels have the same names
_SURE = (("before", "after"), ("pre", "post"))
_SURE_ALONE = (("t1", "t2"), ("t0", "t1"), ("ta", "tb"))
_UNSURE = (("a", "b"), ("1", "2"), ("old", "new"), ("first", "second"), ("early", "late"))
_LABELS = {
    *(
        "label",
        "labels",
        "mask",
        "masks",
        "gt",
        "ground",
        "truth",
        "target",
        "targets",
        "ref",
        "reference",
    ),
    *("annotation", "annotations", "change", "changes", "cd", "cm", "out", "segmentation"),
}
_FILLER = {
    *(
        "event",
        "disaster",
        "image",
        "images",
        "img",
        "imgs",
        "im",
        "rgb",
        "rect",
        "data",
        "time",
        "date",
    )
}
_NUMBERED = re.compile(r"(?:images?|imgs?|im|time|date|t)([0-2ab])")
#: least share of the images that must have several dates
_MOST = 0.8
_YEAR = "(?:19[89][0-9]|20[0-3][0-9])"
_DAY = "(?:19|20)[0-9]{2}[-_.]?(?:0[1-9]|1[0-2])(?:[-_.]?(?:0[1-9]|[12][0-9]|3[01]))?"
#: a day or month anywhere in a name, or a year at the end of a folder or of the name
_DATE = rf"(?<![0-9])(?:{_DAY}(?:T[0-9]{{4,6}}Z?)?(?![0-9])|(?<![a-zA-Z]){_YEAR}(?=/|[.][a-zA-Z]))"
#: name of a location, before or after the date; the whole name if there is no date
_BEFORE = rf"^(.+?)(?:[-_./]*{_DATE}.*)?$"
_AFTER = rf"^(?:.*?{_DATE}[-_./]*)?(.+)$"


def pairs_of_dates(members: Members, where: object) -> Draft | None:
    """Draft for pairs of dates, found by words in folders or names, with change masks or in class folders.

    Raises
    ------
    PermafrostError : most of the images are such pairs, but have no labels of change, or a pair has
        two masks.
    """
    words = {name: _words(name) for name in members.names if is_image(name)}
    images = {name: parts for name, parts in words.items() if not any(map(_is_label, _all(parts)))}
    labels = defaultdict(list)
    for name in words.keys() - images.keys():
        labels[_without(words[name], _is_label)].append(name)
    years = sorted({word for parts in images.values() for word in _all(parts) if _is_year(word)})
    moments = (*_SURE, *_SURE_ALONE, *_UNSURE, *combinations(years, 2))
    # A/a_1.png has the word twice but only one means the date; in before/1_before.png both do
    for two, everywhere in product(moments, (False, True)):
        alone = two in _SURE_ALONE
        first, second = (_of_date(word, images, alone, everywhere) for word in two)
        both = sorted(first.keys() & second.keys())
        sure = alone or two in _SURE or not labels.keys().isdisjoint(both)
        if both and sure and len(both) * 2 >= _MOST * len(images):
            masks = [labels.get(key, []) for key in both]
            before, after = ([found[key] for key in both] for found in (first, second))
            return _pairs(before, after, masks, members, where)
    return None


def _pairs(
    first: list[str], second: list[str], masks: list[list[str]], members: Members, where: object
) -> Draft:
    found = f"holds {len(first)} pairs of two dates, such as {first[0]} and {second[0]},"
    if any(len(one) > 1 for one in masks):
        raise PermafrostError(
            f"{found} and several masks of each, such as {' and '.join(sorted(masks[0])[:2])}: an entry reads one",
            where=where,
            remedy="combine both into one mask of the change, in a folder label",
        )
    labels = [one[0] for one in masks if one]
    patterns = [_pattern_of(names) for names in (first, second)]
    if patterns[0] == patterns[1]:
        raise PermafrostError(
            f"{found} and no pattern of names that fits only one of the two dates",
            where=where,
            remedy="put the images before into a folder A, and those after into a folder B",
        )
    source: dict = {"kind": "folder", "images": patterns}
    draft = Draft("change", source, [*first, *second], {"dates": "pair"})
    if len(labels) == len(first):
        source["masks"] = _pattern_of(labels)
        values = pixel_values(members, labels, where=where)
        if values in ({0, 1}, {0, 255}, {0}):
            draft.fields["classes"] = ["same", "changed"]
            if values == {0, 255}:
                draft.fields["mask_values"] = {"0": "same", "255": "changed"}
        else:
            class_codes(values or (), draft)
            draft.note("classes", "the first class has to mean that nothing changed")
    elif all("<class>" in pattern for pattern in patterns) and not labels:
        draft.task = "classification"
        draft.fields["classes"] = sorted(
            {name.split("/")[patterns[0].split("/").index("<class>")] for name in first}
        )
    else:
        raise PermafrostError(
            f"{found} but no label of the change for {len(first) - len(labels)} of them",
            where=where,
            remedy="put a mask of the same name for each into a folder label, or the pairs into folders of classes",
        )
    if labels:
        for key in ("images", "masks"):
            source[key] = _plain(source[key])
    splits = {part for name in first for part in name.split("/")[:-1] if is_split(part)}
    if splits and "<split>" in str(source):
        draft.splits = given_splits(splits, draft)
    if len(members.names) > len(first) + len(second) + len(labels):
        source["other_files"] = "ignore"
        draft.note("source", "other files are ignored")
    draft.note("source", "two dates of each place: images lists the one before and the one after")
    return draft


def _pattern_of(names: Sequence[str]) -> str:
    """A pattern that matches the names, with ``<split>``, ``<class>``, ``<place>`` and ``<stem>``.

    Words of the file name that mean a date or a mask stay literal.
    """
    # <stem> may be in sub-folders
    depth = min(name.count("/") for name in names)
    levels = list(zip(*(name.split("/")[:depth] for name in names), strict=True))
    pieces, free = [], iter(("<class>", "<place>", *(f"<place{n}>" for n in range(2, 20))))
    for parts in levels:
        if len({*parts}) == 1 and not is_split(parts[0]):
            pieces.append(parts[0])
        else:
            pieces.append("<split>" if all(map(is_split, parts)) else next(free))
    files = [name.split("/", depth)[depth] for name in names]
    if len({*files}) == 1:
        return "/".join([*pieces, files[0]])
    ends = {file.rpartition(".")[2] for file in files}
    stems = [file.rpartition(".")[0] for file in files]
    before = _shared(stems, rf"^(?:[a-zA-Z]+[0-9]?|{_YEAR}|[12])[-_]+")
    after = _shared(
        [stem.removeprefix(before) for stem in stems],
        rf"(?:(?<=.)[-_]+(?:[a-zA-Z]+[0-9]?|{_YEAR}|[12]))+$",
    )
    return "/".join(
        [*pieces, f"{before}<stem>{after}" + (f".{ends.pop()}" if len(ends) == 1 else "")]
    )


def _shared(texts: Sequence[str], pattern: str) -> str:
    """The match of the expression if it is the same in all texts."""
    found = {one[0] if (one := re.search(pattern, text)) else "" for text in texts}
    return found.pop() if len(found) == 1 else ""


def _plain(pattern):
    """The pattern without a class: masks have none, so its folder is an ordinary part of the location."""
    if isinstance(pattern, list):
        return [_plain(one) for one in pattern]
    return pattern.replace("<class>", "<folder>")


def two_dates(first: str, second: str) -> bool:
    """Whether the names of two table columns are those of a pair of dates."""
    one, other = _words(f"{first}.x"), _words(f"{second}.x")
    years = [
        tuple(sorted(word for word in _all(parts) if _is_year(word))) for parts in (one, other)
    ]
    return any(
        low in _all(one) and high in _all(other)
        and _without(one, low.__eq__) == _without(other, high.__eq__)
        for low, high in (*_SURE, *_SURE_ALONE, *_UNSURE, *zip(*years, strict=False))
    )  # fmt: skip


def _of_date(
    word: str, images: dict[str, _Words], alone: bool, everywhere: bool
) -> dict[_Words, str]:
    """Rest of a name -> the name, for images with the word; with `alone` it must be a whole folder or file name."""
    found = {}
    for name, parts in images.items():
        if (word,) in parts:
            rest = tuple(part for part in parts if part and part != (word,))
        elif not alone and word in _all(parts):
            rest = _without(parts, word.__eq__)
        else:
            continue
        found[_without(rest, word.__eq__) if everywhere else rest] = name
    return found


def _words(name: str) -> _Words:
    """Words of each folder and of the file that describe location or date."""
    parts = []
    for part in name.lower().rpartition(".")[0].split("/"):
        words = [word for word in re.split(r"[^a-z0-9]+", part) if word]
        rest = [_NUMBERED.sub(r"t\1", word) for word in words if word not in _FILLER]
        # imgs_1 means the first date
        numbered = len(rest) == 1 < len(words) and rest[0] in {*"012ab"}
        parts.append((f"t{rest[0]}",) if numbered else tuple(rest))
    return tuple(parts)


def _all(parts: _Words) -> Iterator[str]:
    return chain.from_iterable(parts)


def _without(parts: _Words, drop: Callable[[str], bool]) -> _Words:
    kept = (tuple(word for word in part if not drop(word)) for part in parts)
    return tuple(part for part in kept if part)


def _is_label(word: str) -> bool:
    return word.rstrip("0123456789") in _LABELS


def _is_year(word: str) -> bool:
    return re.fullmatch(_YEAR, word) is not None


def keep_dates_together(draft: Draft, where: object) -> None:
    """Make the location the group if most images of a draft are one of several dates there.

    Raises
    ------
    PermafrostError : the folders are locations, so the classes are unknown.
    """
    start = len(folder_prefix(draft.source.get("root", ".").strip(".")))
    names = [name[start:] for name in draft.images]
    if not dates_of_places(names):
        return
    by_pattern = {
        pattern: {re.search(pattern, name)[1] for name in names} for pattern in (_BEFORE, _AFTER)
    }
    pattern = max(by_pattern, key=lambda one: len(by_pattern[one]))
    if draft.task == "classification" and by_pattern[pattern] == {*draft.fields["classes"]}:
        raise PermafrostError(
            f"holds series: each folder, such as {names[0].partition('/')[0]}, has dates of one location, but"
            " the locations have no labels",
            where=where,
            remedy="put the folders of the locations into folders of classes, or list the images in a CSV with a label",
        )
    if draft.task == "classification" and (series := _series_pattern(draft, names)):
        draft.source.pop("split_folders", None)
        draft.source["images"] = series
        draft.fields["dates"] = "series"
        draft.note(
            "source",
            "several dates of a location are one sample, a series; <date> distinguishes them",
        )
        return
    draft.source["group"] = pattern
    draft.note(
        "source",
        "several dates of a place: each date is read as an image of its own, and group keeps the dates of a place"
        " in one split; docs/dates-and-change.md says how to make series of them",
    )
    if draft.splits is None or draft.splits["method"] == "random":
        draft.splits = {"method": "group"}


def _series_pattern(draft: Draft, names: Sequence[str]) -> str | None:
    """A pattern with ``<class>`` and ``<date>`` that joins the dates of a location into one sample;
    None if there is none."""
    around = dates_of_places(names)
    if len(around) < len(names) or len({name.count("/") for name in names}) > 1:
        return None
    marked = [f"{before}<date>{after}".split("/") for before, after in around.values()]
    split, free = draft.source.get("split_folders"), iter(("place", "place2", "place3", "place4"))
    pieces = []
    for level, parts in enumerate(zip(*marked, strict=True)):
        if split and level == 0:
            pieces.append("<split>")
        elif level == int(bool(split)):
            pieces.append("<class>")
        else:
            pieces.append(_generalised(parts, free))
    text = "/".join(pieces)
    pattern = re.compile(name_pattern(text, IMAGE_ENDINGS, draft.task).pattern)
    samples: dict[tuple[str, ...], tuple[str, str]] = {}
    for name, place in around.items():
        match = pattern.fullmatch(name)
        if match is None or iso_date(match.groupdict().get("date") or "") is None:
            return None
        others = {key: value for key, value in match.groupdict().items() if key != "date"}
        if samples.setdefault(tuple(others.values()), place) != place:
            return None
    return text if len(samples) == len({*around.values()}) else None


def _generalised(parts: Sequence[str], free: Iterator[str]) -> str:
    """One folder level as a pattern: the common part, and names for differing parts before and after ``<date>``."""
    pieces = []
    for texts in zip(*(re.split("(<date>)", part) for part in parts), strict=False):
        if len({*texts}) == 1:
            pieces.append(texts[0])
            continue
        before, after = _shared(texts, "^[-_.]+"), _shared(texts, "(?:[-_]+|[.][a-zA-Z]+)$")
        pieces.append(f"{before}<{next(free)}>{after}")
    return "".join(pieces)


def dates_of_places(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name -> the text around its date, equal for dates of a location; empty unless most locations have several."""
    found = {name: one for name in names if (one := re.search(_DATE, name))}
    around = {name: (name[: one.start()], name[one.end() :]) for name, one in found.items()}
    dates: dict[tuple[str, str], set[str]] = defaultdict(set)
    for name, place in around.items():
        dates[place].add(found[name][0])
    several = sum(len(dates[place]) > 1 for place in around.values())
    return around if several and several >= _MOST * len(names) else {}
