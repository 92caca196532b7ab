"""Data frames that print each value together with its interval."""

from __future__ import annotations

import html
import textwrap

import pandas as pd

from permafrost.report.explanations.gates import explain
from permafrost.report.notation import interval, number, p_value_text

# columns that are not printed as such: bounds are printed with the value, others below the table
_HIDDEN = (
    "lower", "upper", "confidence", "method", "unit", "n_units", "n_test", "rows", "primary", "higher_is_better",
    "p_value", "gates", "note", "n_carriers", "largest_share",
)  # fmt: skip
_WIDTH = 80


class Figures(pd.DataFrame):
    """A data frame with ``lower`` and ``upper``, printed as ``value [lower, upper]``.

    It has all columns, including those that are not printed. Selections are ordinary data frames.
    """

    @property
    def _constructor(self):
        return pd.DataFrame

    @property
    def _figure(self) -> str | None:
        """The column with an interval; None: needed columns were removed."""
        needed = {"lower", "upper", "confidence"} <= set(self) and len(self)
        return next((name for name in ("difference", "value") if needed and name in self), None)

    def _printed(self, figure: str) -> pd.DataFrame:
        """The printed cells, as text."""
        shares = sorted({f"{100 * share:g} %" for share in self["confidence"]})
        gates = self["gates"] if "gates" in self else [""] * len(self)
        ends = zip(self[figure], self["lower"], self["upper"], gates, strict=True)
        texts = [
            f"{_written(value)} {interval(low, high, _written)}{_star(gate)}"
            for value, low, high, gate in ends
        ]
        cells = {}
        for name in self:
            if name == figure:
                cells[f"{figure} [{' or '.join(shares)} interval]"] = texts
            elif name == "p_adjusted":
                cells[name] = [p_value_text(value) for value in self[name]]
            elif name == "detectable":
                cells[name] = [_written(value) for value in self[name]]
            elif name == "better" or (name not in _HIDDEN and self[name].notna().any()):
                cells[name] = self[name]
        shown = pd.DataFrame(cells, index=self.index).astype(object)
        return shown.where(shown.notna(), "")

    def _remarks(self) -> list[str]:
        """Lines below the table: sampling units, notes and warnings."""
        said = []
        if {"n_units", "unit"} <= set(self):
            counts = {_count(*one) for one in zip(self["n_units"], self["unit"], strict=True)}
            said.append(f"intervals over {', '.join(sorted(counts))}")
        if "note" in self:
            noted = zip(self["measure"], self["note"], strict=True)
            said += [f"{measure}: {note}" for measure, note in noted if note]
        given = {
            gate for gates in self.get("gates", ()) if _star(gates) for gate in gates.split(";")
        }
        return [*said, *(f"* {gate.partition(':')[0]}: {explain(gate)}" for gate in sorted(given))]

    def __repr__(self) -> str:
        if (figure := self._figure) is None:
            return super().__repr__()
        rows = self._printed(figure)
        text = rows.to_string(index=False, max_rows=pd.options.display.max_rows)
        lines = (line for remark in self._remarks() for line in textwrap.wrap(remark, _WIDTH))
        return "\n".join([text, *lines])

    def _repr_html_(self) -> str:
        if (figure := self._figure) is None:
            return super()._repr_html_()
        said = "<br>".join(map(html.escape, self._remarks()))
        return f"{self._printed(figure).to_html(index=False)}<p>{said}</p>"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' * (number != 1)}"


def _star(gate) -> str:
    return " *" if isinstance(gate, str) and gate else ""


def _written(value) -> str:
    """A number with three decimals; below 0.001, with two significant digits."""
    return number(value, 3) if pd.isna(value) or not 0 < abs(value) < 0.001 else f"{value:.2g}"
