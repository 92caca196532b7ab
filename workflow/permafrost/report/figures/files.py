"""Figures as files, whose form is that of the name's ending."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.report.figures.vega import as_json, as_svg, converter

_FORMS = (".svg", ".png", ".pdf", ".json")


def check_ending(path: Path) -> None:
    """Refuse a name whose ending is not that of a form of figures."""
    if path.suffix not in _FORMS:
        raise PermafrostError(
            f"no figure is written as {path.suffix or path.name!r}",
            where=path,
            remedy=f"end the name in one of {', '.join(_FORMS)}",
        )


def write_figure(path: Path, specification: Mapping) -> None:
    """Write a figure: .svg, .png (double resolution), .pdf, or .json (the specification).

    Raises
    ------
    PermafrostError : as `check_ending`.
    """
    check_ending(path)
    text = as_json(specification)
    content = {
        ".svg": lambda: as_svg(specification).encode(),
        ".png": lambda: converter().vegalite_to_png(text, scale=2),
        ".pdf": lambda: converter().vegalite_to_pdf(text),
        ".json": lambda: text.encode(),
    }[path.suffix]()
    with whole_file(path) as partial:
        partial.write_bytes(content)
