"""Figures of the report, for notebooks and papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.report.figures.vega import as_json, as_svg, converter

_FORMS = (".svg", ".png", ".pdf", ".json")


class Plot:
    """A figure that notebooks display; `save` writes it to a file.

    Attributes
    ----------
    specification : Vega-Lite, including all data; may be changed.
    """

    def __init__(self, specification: Mapping) -> None:
        self.specification = dict(specification)

    def save(self, path) -> None:
        """Write the figure.

        Parameters
        ----------
        path : the suffix sets the format: ``.svg``, ``.png`` (double resolution), ``.pdf``, or
            ``.json`` (the specification).

        Raises
        ------
        PermafrostError : another suffix.
        """
        path, text = Path(path), as_json(self.specification)
        if path.suffix not in _FORMS:
            raise PermafrostError(
                f"no figure is written as {path.suffix or path.name!r}",
                where=path,
                remedy=f"end the name in one of {', '.join(_FORMS)}",
            )
        content = {
            ".svg": lambda: as_svg(self.specification).encode(),
            ".png": lambda: converter().vegalite_to_png(text, scale=2),
            ".pdf": lambda: converter().vegalite_to_pdf(text),
            ".json": lambda: text.encode(),
        }[path.suffix]()
        with whole_file(path) as partial:
            partial.write_bytes(content)

    def _repr_svg_(self) -> str:
        return as_svg(self.specification)

    def __repr__(self) -> str:
        return f"Plot({self.specification['title']['text']!r})"
