"""Predictions per pixel as pictures: next to image and truth, and next to those of other backbones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from permafrost.report.figures.sheet import Grid, Sheet, in_pairs
from permafrost.report.figures.style import drawing, shorten


def draw_pictures(
    groups: list[tuple[str, list]],
    panels: Callable,
    across: int,
    *,
    title: str,
    note: str,
    legend: Callable | None = None,
    bars: Sequence[tuple] = (),
):
    """All panels of every example, two examples to a line.

    Parameters
    ----------
    groups : (heading, examples with their answers); a group without examples is skipped.
    panels : example, answer -> (word, picture) of each panel; `across` of them are in a line.
    note : which bands are shown and how.
    legend : returns the legend of a `Sheet`; bars : arguments of `Sheet.bar` for each colour scale.
    """
    lines = in_pairs(groups)
    with drawing() as Figure:
        grid = Grid.of_pairs(across, lines, bars=bool(bars))
        sheet = Sheet(Figure, grid, title, note, *([legend()] if legend else []))
        for line, (heading, pairs) in enumerate(lines):
            sheet.heading(line, heading)
            for place, (example, answer) in enumerate(pairs):
                first = place * across // 2
                for column, (word, picture) in enumerate(panels(example, answer), start=first):
                    sheet.picture(line, column, picture, word if heading else "")
                sheet.words(line, first, f"{shorten(example.name, 44)}: {answer.words}")
        return _finished(sheet, legend, bars)


def draw_comparison(
    examples: list,
    columns: list[tuple[str, list]],
    known: Callable,
    paint: Callable,
    across: int,
    *,
    title: str,
    note: str,
    legend: Callable | None = None,
    bars: Sequence[tuple] = (),
):
    """The panels of an image and one prediction per backbone, an image per line.

    Parameters
    ----------
    columns : (name, an answer per example), as many as fit. None if there is no answer.
    known : example -> (word, picture) of the first panels; paint : answer -> picture.
    across, note, legend, bars : as in `draw_pictures`.
    """
    left = max((len(known(example)) for example in examples), default=2)
    if len(columns) > across - left:
        raise ValueError(f"{len(columns)} columns do not fit")
    with drawing() as Figure:
        grid = Grid.of_columns(across, len(examples), left + len(columns), bars=bool(bars))
        sheet = Sheet(Figure, grid, title, note, *([legend()] if legend else []))
        for line, example in enumerate(examples):
            for column, (word, picture) in enumerate(known(example)):
                sheet.picture(line, column, picture, word if line == 0 else "")
            sheet.words(line, 0, shorten(example.name, 30))
            for column, (name, answers) in enumerate(columns, start=left):
                if answers[line] is not None:
                    shown = paint(answers[line])
                    sheet.picture(line, column, shown, name if line == 0 else "")
                    sheet.words(line, column, answers[line].words)
        return _finished(sheet, legend, bars)


def _finished(sheet: Sheet, legend: Callable | None, bars: Sequence[tuple]):
    if legend:
        sheet.legend()
    for place, bar in enumerate(bars):
        sheet.bar(place, *bar)
    return sheet.finished()
