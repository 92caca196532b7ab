"""What a page shows of a map: confused classes, as points and as shares of the area."""

from __future__ import annotations

from permafrost.core.text import printable_name
from permafrost.evaluators.map_accuracy.result import MapAccuracy
from permafrost.evaluators.output.page import Section
from permafrost.evaluators.output.page_sections import confusion_section
from permafrost.report.tables.blocks import Block

_MOST = 40  # classes in the table of areas


def map_sections(found: MapAccuracy) -> list[Section]:
    """Confusion of points, and estimated shares of the area."""
    sections = [
        confusion_section(found.counts, found.names, unit="points", sides=("reference", "map"))
    ]
    if len(found.names) <= _MOST:
        names = [printable_name(name) for name in found.names]
        rows = [
            [name, *(f"{100 * share:.2f}" for share in shares)]
            for name, shares in zip(names, found.shares.tolist(), strict=True)
        ]
        block = Block(
            "Estimated % of the area: rows the reference, columns the map",
            [["reference", *names], *rows],
            frozenset(names),
        )
        sections.append(Section("areas", "Areas", "", [block]))
    return sections
