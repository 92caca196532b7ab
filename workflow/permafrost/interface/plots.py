"""Figures of the report for a notebook or a paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from permafrost.core.errors import PermafrostError
from permafrost.core.outputs import whole_file
from permafrost.report.figures.vega import as_json, as_svg, converter

_FORMS = (".svg", ".png", ".pdf", ".json")


class Plot:
    """A figure, which a notebook shows; `save` writes it.

    Attributes
    ----------
    specification : of Vega-Lite, with all rows that are drawn: change it, or take the numbers from it.
    """

    def __init__(self, specification: Mapping) -> None:
        self.specification = dict(specification)

    def save(self, path) -> None:
        """Write the figure.

        Parameters
        ----------
        path : what its name ends in says the form: ``.svg``, ``.png`` (twice as many pixels), ``.pdf``, or ``.json``
            for the specification.

        Raises
        ------
        PermafrostError : another ending.
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
