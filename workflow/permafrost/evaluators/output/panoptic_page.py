"""What a page shows of panoptic maps: matches, false alarms and misses of classes, and the worst images."""

from __future__ import annotations

from permafrost.core.text import printable_name
from permafrost.evaluators.output.page import Section
from permafrost.evaluators.output.page_sections import image_section
from permafrost.evaluators.panoptic.result import PanopticEvaluation
from permafrost.report.tables.blocks import Block


def panoptic_sections(found: PanopticEvaluation) -> list[Section]:
    """Kinds of errors by class, and images."""
    heads = ["class", "kind", "matches", "false alarms", "missed"]
    lines = [
        [
            printable_name(row["name"]),
            "thing" if row["isthing"] else "stuff",
            *(str(row[kind]) for kind in ("tp", "fp", "fn")),
        ]
        for row in found.class_counts()
    ]
    block = Block("Segments", [heads, *lines], frozenset(heads[2:]))
    words = "A segment is matched if its IoU with one of its class is above 0.5."
    alarms, missed = found.fp.sum(axis=1), found.fn.sum(axis=1)
    columns = {"matches": found.tp.sum(axis=1), "false alarms": alarms, "missed": missed}
    return [
        Section("errors", "Kinds of errors", words, [block]),
        image_section(found.images, columns, alarms + missed),
    ]
