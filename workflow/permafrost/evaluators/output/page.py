"""The HTML page of an evaluation of files: what every kind of evaluation shows, and what one adds to it.

The page is one folder, ``index.html`` and ``figures``, and needs neither a network nor JavaScript. The parts come from
the pipeline's pages: template, style, figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from permafrost.core.errors import PermafrostError
from permafrost.core.extras import need
from permafrost.core.outputs import Group, whole_directory
from permafrost.core.text import printable_name
from permafrost.report.material.dataset import save
from permafrost.report.notation import interval_of, number, p_value_text, signed
from permafrost.report.page import render_page
from permafrost.report.sections.dataset import shown
from permafrost.report.tables.blocks import Block

_LONGEST = 80  # characters of a name
_PARTS = {"index.html", "figures"}  # of a page
#: libraries of the extra ``workflow`` that a page needs
LIBRARIES = ("jinja2", "matplotlib", "vl_convert")


@dataclass(frozen=True)
class Figure:
    """A figure of a page.

    Attributes
    ----------
    stem : its file's name without an ending, distinct on the page.
    content : a specification of `report.figures.chart`; with `pixels` a figure of matplotlib.
    """

    stem: str
    content: Any
    alt: str
    caption: str
    wide: bool = False
    pixels: bool = False


@dataclass(frozen=True)
class Section:
    """A section of a page: a heading, then words, tables and figures; `anchor` is its place in links."""

    anchor: str
    heading: str
    words: str = ""
    blocks: Sequence[Block] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Parts:
    """What a command adds to a page.

    Attributes
    ----------
    title : the kind of evaluation; what : the evaluated data and the rules, as a sentence.
    primary : the metrics that may be in the sentence; the first with a value is. Higher is better.
    files : the evaluated file and the other one, of a comparison.
    sections : further ones, in the order of the page. An empty one is left out.
    """

    title: str
    what: str
    primary: tuple[str, ...]
    files: tuple[object, object]
    sections: Sequence[Section] = ()

    @property
    def names(self) -> tuple[str, str]:
        """Names of the files for sentences, see `file_names`."""
        return file_names(*self.files)


@dataclass(frozen=True)
class Result:
    """The numbers of an evaluation, as in its JSON.

    Attributes
    ----------
    rows : of the scores; comparison : of the differences to the other file.
    notes, options : as in the JSON; confidence : level of the intervals.
    """

    rows: Sequence[Mapping]
    confidence: float
    comparison: Sequence[Mapping] = ()
    notes: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)


def file_names(first, second) -> tuple[str, str]:
    """Printable names of two files, without their folders if the names differ."""
    short = [printable_name(Path(str(one)).name, _LONGEST) for one in (first, second)]
    if short[0] != short[1]:
        return short[0], short[1]
    long = [printable_name(one, 3 * _LONGEST) for one in (first, second)]
    return (long[0], long[1]) if long[0] != long[1] else (long[0], f"{long[1]} (again)")


def check_folder(path: Path) -> None:
    """Refuse a folder that holds anything other than a page, which a new page would replace.

    Raises
    ------
    PermafrostError : other files are in the folder; a library is missing.
    """
    need(*LIBRARIES)
    if path.is_dir() and (others := {one.name for one in path.iterdir()} - _PARTS):
        raise PermafrostError(
            f"the folder holds other files ({printable_name(min(others), _LONGEST)}), and a page replaces its folder",
            where=path,
            remedy="name a new folder in --report, or the folder of an earlier page",
        )


def write_page(folder: Path, parts: Parts, result: Result, group: Group | None = None) -> None:
    """Write ``folder/index.html`` and ``folder/figures``, completely or not at all; replaces an earlier page.

    Parameters
    ----------
    group : of `core.outputs.together`; the folder takes its place with the whole group.
    """
    with whole_directory(folder, group=group) as partial:
        (partial / "figures").mkdir()
        sections = [
            _section(one, partial / "figures")
            for one in parts.sections
            if one.blocks or one.figures
        ]
        text = render_page("evaluation.html.j2", _values(parts, result, sections))
        (partial / "index.html").write_text(text, encoding="utf-8")


def sentences(parts: Parts, result: Result) -> list[str]:
    """The primary score with its interval, and whether the other file is better or worse."""
    row = _primary(result.rows, parts.primary)
    if row is None:
        return [f"{parts.names[0]}: no score is defined."]
    bounds = interval_of(dict(row), _text)
    certain = f" {bounds}" if bounds else ", without an interval"
    doubt = " The interval is not to be trusted: few units carry it." if row.get("gates") else ""
    said = [f"{parts.names[0]} has {row['metric']} {_text(row['value'])}{certain}.{doubt}"]
    if result.comparison:
        said.append(_compared(_primary(result.comparison, (row["metric"],)), parts.names))
    return said


def _primary(rows: Sequence[Mapping], names: Sequence[str]) -> Mapping | None:
    overall = {row["metric"]: row for row in rows if row["class"] is None}
    known = [overall[name] for name in names if name in overall]
    return next((row for row in known if row["value"] is not None), None)


def _compared(row: Mapping | None, names: tuple[str, str]) -> str:
    """Which of two files is better, and whether that is certain."""
    if row is None or row["difference"] is None:
        return f"{names[0]} and {names[1]} cannot be compared: one of them has no score."
    low, high = row["lower"], row["upper"]
    bounds = interval_of(dict(row), _signed)
    by = f"{row['metric']} differs by {_signed(row['difference'])} {bounds}".rstrip()
    p_value = f", p {_p_text(row)}" if row.get("p_value") is not None else ""
    if low is None or high is None:
        return f"Which of {names[0]} and {names[1]} is better is not certain: {by}, without an interval."
    if low <= 0 <= high or row.get("gates"):
        why = "which includes 0" if low <= 0 <= high else "but few units carry the difference"
        return f"Which of {names[0]} and {names[1]} is better is not certain: {by}, {why}{p_value}."
    better, worse = names if row["difference"] > 0 else names[::-1]
    return f"{better} is better than {worse}, and this is certain: {by}, which excludes 0{p_value}."


def _values(parts: Parts, result: Result, sections: list[dict]) -> dict:
    level = f"{100 * result.confidence:g} %"
    return {
        "title": parts.title,
        "what": printable_name(parts.what, 10 * _LONGEST),
        "notices": [],
        "sentences": sentences(parts, result),
        "intervals": f"Brackets hold {level} intervals. A star marks one that is not to be trusted, since few units"
        " carry the score.",
        "overall": [
            {"metric": row["metric"], "cell": _cell(row)}
            for row in result.rows
            if row["class"] is None
        ],
        "classes": _classes(result.rows),
        "files": parts.names,
        "differences": [_difference(row) for row in result.comparison],
        "sections": sections,
        "notes": result.notes,
        "options": [
            (name, _option(value)) for name, value in result.options.items() if _given(value)
        ],
    }


def _section(section: Section, folder: Path) -> dict:
    figures = [
        shown(
            save(
                one.content,
                folder,
                one.stem,
                alt=one.alt,
                caption=one.caption,
                wide=one.wide,
                pixels=one.pixels,
            )
        )
        for one in section.figures
    ]
    about = {name: getattr(section, name) for name in ("anchor", "heading", "words", "blocks")}
    return {**about, "figures": figures}


def _classes(rows: Sequence[Mapping]) -> dict:
    """A line per class, a column per metric."""
    own = [row for row in rows if row["class"] is not None]
    metrics = list(dict.fromkeys(row["metric"] for row in own))
    each = {(row["class"], row["metric"]): row for row in own}
    lines = [
        {
            "name": printable_name(name, _LONGEST),
            "cells": [_cell(each.get((name, metric), _NONE)) for metric in metrics],
        }
        for name in dict.fromkeys(row["class"] for row in own)
    ]
    return {"metrics": metrics, "lines": lines}


_NONE: dict = dict.fromkeys(("value", "lower", "upper"))


def _cell(row: Mapping) -> dict:
    return {
        "value": row["value"],
        "text": _text(row["value"]),
        "interval": interval_of(dict(row), _text),
        "gates": printable_name(row.get("gates") or "", 10 * _LONGEST),
    }


def _difference(row: Mapping) -> dict:
    plain = {"interval": "", "gates": ""}
    value, other = row["value"], row["against"]
    return {
        "metric": row["metric"],
        "name": printable_name(row["class"] or "", _LONGEST),
        "own": {"value": value, "text": _text(value), **plain},
        "other": {"value": other, "text": _text(other), **plain},
        "cell": {
            "value": row["difference"],
            "text": _signed(row["difference"]),
            "interval": interval_of(dict(row), _signed),
            "gates": printable_name(row.get("gates") or "", 10 * _LONGEST),
        },
        "p": row.get("p_value"),
        "p_text": "–" if row.get("p_value") is None else _p_text(row).removeprefix("= "),
    }


def _p_text(row: Mapping) -> str:
    counted = (row.get("resamples") or 0) - (row.get("n_undefined") or 0)
    text = p_value_text(row["p_value"], smallest=2 / (counted + 1) if counted > 0 else 0.0)
    return text if text.startswith("<") else f"= {text}"


def _digits(value) -> int:
    """Fewer decimals for large numbers, such as areas."""
    return 3 if value is None or abs(value) < 100 else 1


def _text(value) -> str:
    return number(value, _digits(value))


def _signed(value) -> str:
    return signed(value, _digits(value))


def _option(value) -> str:
    if isinstance(value, Mapping) and "path" in value:
        return f"{value['path']} (SHA-256 {value['sha256']})"
    return printable_name(value, 10 * _LONGEST)


def _given(value) -> bool:
    return value is not None and value is not False and value != []
