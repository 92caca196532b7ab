"""Figures of the report, for notebooks and papers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from permafrost.report.figures.files import write_figure
from permafrost.report.figures.vega import as_svg


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
        write_figure(Path(path), self.specification)

    def _repr_svg_(self) -> str:
        return as_svg(self.specification)

    def __repr__(self) -> str:
        return f"Plot({self.specification['title']['text']!r})"
