"""Detections over test images: next to the truth, and next to those of other backbones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.report.figures.objects import (
    ALARM,
    CONFUSED,
    FOUND,
    HIT,
    MISSED,
    UNCOUNTED,
    draw_shapes,
    legend_line,
    on_dark_paper,
)
from permafrost.report.figures.sheet import (
    Grid,
    Panel,
    Sheet,
    cell_of,
    height_of,
    in_pairs,
    most_pixels,
)
from permafrost.report.figures.style import drawing, shorten

ACROSS = 4  # panels per line of examples: truth and detections of two images
COMPARED = 5  # panels per line of a comparison: truth and four backbones
LONGEST = most_pixels(cell_of(ACROSS))  # largest useful picture side in pixels

# outcome of an object or a detection: (colour, words), in drawing order
_OBJECTS = {
    "uncounted": (UNCOUNTED, "not counted"),
    "missed": (MISSED, "missed object"),
    "found": (FOUND, "found object"),
}
_DETECTIONS = {
    "excused": (UNCOUNTED, "not counted"),
    "alarms": (ALARM, "false alarm"),
    "hits": (HIT, "right detection"),
    "confused": (CONFUSED, "right place, wrong class"),
}


@dataclass(frozen=True)
class Example:
    """A whole test image: its name, a picture of it in [0, 1], and its width and height in pixels.

    The picture is (h, w, 3) or (h, w), and may have fewer pixels than the image.
    """

    name: str
    picture: np.ndarray
    size: tuple[int, int]


@dataclass(frozen=True)
class Answer:
    """Outcomes of the objects and detections of an image: boxes (N, 4), or points (N, 2).

    Attributes
    ----------
    found, missed, uncounted : the objects; the last are crowds.
    hits, confused, alarms, excused : the detections; `confused` match an object of another class,
        and `excused` are on crowds.
    """

    found: np.ndarray
    missed: np.ndarray
    uncounted: np.ndarray
    hits: np.ndarray
    confused: np.ndarray
    alarms: np.ndarray
    excused: np.ndarray

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision, ignoring classes; NaN without objects."""
        right = 2 * len(self.found)
        both = right + len(self.missed) + len(self.alarms)
        return right / both if both else float("nan")

    @property
    def words(self) -> str:
        """Numbers of matched objects and false detections, in words."""
        objects = len(self.found) + len(self.missed)
        of = f"{len(self.found)} of {objects} found" if objects else "nothing to find"
        alarms = len(self.alarms)
        return f"{of}, {alarms} false alarm{'' if alarms == 1 else 's'}"


def draw_pictures(
    groups: list[tuple[str, list[tuple[Example, Answer]]]], kind: str, *, title: str, note: str
):
    """Truth and detections of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples); a group without examples is skipped.
    kind : ``box`` or ``point``.
    note : which bands are shown and how.
    """
    lines = in_pairs(groups)
    answers = [answer for _, examples in groups for _, answer in examples]
    with drawing() as Figure:
        legend = _legend(kind, answers, found=True)
        heights = [max(height_of(one.size) for one, _ in pairs) for _, pairs in lines]
        grid = Grid.of_pairs(ACROSS, lines, heights=heights)
        sheet = Sheet(Figure, grid, title, note, legend)
        for line, (heading, pairs) in enumerate(lines):
            sheet.heading(line, heading)
            for place, (example, answer) in enumerate(pairs):
                for half, (word, groups_of) in enumerate(
                    (("truth", _OBJECTS), ("detections", _DETECTIONS))
                ):
                    shown = word if heading else ""
                    panel = sheet.canvas(
                        line, 2 * place + half, example.picture, shown, example.size
                    )
                    _draw(panel, kind, answer, groups_of)
                words = f"{shorten(example.name, 60)}: {answer.words}"
                sheet.words(line, 2 * place, words)
        on_dark_paper(sheet.legend(handlelength=2.2, frameon=True))
    return sheet.finished()


def draw_comparison(
    examples: list[tuple[Example, Answer]],
    columns: list[tuple[str, list[Answer | None]]],
    kind: str,
    *,
    title: str,
    note: str,
):
    """Truth, then the detections of one backbone after another, an image per line.

    Parameters
    ----------
    examples : images with any answer, for their objects.
    columns : (name, an answer per example); at most `COMPARED` - 1. None if there is no answer.
    kind, note : as in `draw_pictures`.
    """
    if len(columns) > COMPARED - 1:
        raise ValueError(f"{len(columns)} columns do not fit")
    answers = [answer for _, of_column in columns for answer in of_column if answer]
    missed = {"missed": _OBJECTS["missed"]}
    with drawing() as Figure:
        legend = _legend(kind, answers, found=False)
        heights = [height_of(one.size) for one, _ in examples]
        grid = Grid.of_columns(COMPARED, len(examples), 1 + len(columns), heights=heights)
        sheet = Sheet(Figure, grid, title, note, legend)
        for line, (example, answer) in enumerate(examples):

            def canvas(column: int, word: str, line=line, example=example) -> Panel:
                shown = word if line == 0 else ""
                return sheet.canvas(line, column, example.picture, shown, example.size)

            panel = canvas(0, "truth")
            width = _width(len(answer.found) + len(answer.missed))
            for shapes in (answer.found, answer.missed):
                draw_shapes(panel, kind, shapes, FOUND, width=width)
            draw_shapes(panel, kind, answer.uncounted, UNCOUNTED, width=width)
            sheet.words(line, 0, shorten(example.name, 38))
            for column, (name, of_column) in enumerate(columns, start=1):
                if of_column[line] is not None:
                    _draw(
                        canvas(column, shorten(name, 38)),
                        kind,
                        of_column[line],
                        _DETECTIONS | missed,
                    )
                    sheet.words(line, column, of_column[line].words)
        on_dark_paper(sheet.legend(handlelength=2.2, frameon=True))
    return sheet.finished()


def _draw(panel: Panel, kind: str, answer: Answer, groups: dict[str, tuple[str, str]]) -> None:
    width = _width(sum(len(getattr(answer, name)) for name in groups))
    for name, (colour, _) in groups.items():
        crosses = kind == "point" and name in _DETECTIONS
        draw_shapes(panel, kind, getattr(answer, name), colour, dashed=crosses, width=width)


def _width(count: int) -> float:
    """Thinner lines if there are many, so that they do not hide their contents."""
    return 1.1 if count <= 40 else 0.8 if count <= 150 else 0.55


def _legend(kind: str, answers: list[Answer], *, found: bool) -> tuple[list, int]:
    """Handles of everything that occurs, and the letters of the longest label; without `found`,
    matched objects look like all objects in the panel of the truth."""
    objects = _OBJECTS if found else _OBJECTS | {"found": (FOUND, "object")}
    handles: dict[str, object] = {}
    for name, (colour, words) in [*reversed(objects.items()), *reversed(_DETECTIONS.items())]:
        everywhere = name == "found" and not found
        if everywhere or any(len(getattr(answer, name)) for answer in answers):
            crosses = kind == "point" and name in _DETECTIONS
            handles.setdefault(words, legend_line(kind, colour, words, dashed=crosses))
    return list(handles.values()), max(map(len, handles), default=1)
