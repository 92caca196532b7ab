"""Figures of probes that train backbones further: fine-tuned against frozen, for every backbone."""

from __future__ import annotations

from pathlib import Path

from permafrost.metrics.tasks import primary_metric
from permafrost.report.figures.tuned import draw_tuned
from permafrost.report.material.dataset import Drawn, Material, save
from permafrost.report.values.rows import better_first, distinct, metric_name
from permafrost.report.values.seeds import merge_seeds

KIND = "fine_tune"
# as the probe calls its settings
SHOWN = {"frozen": "frozen", "fine-tuned": "fine-tuned", "gain": "fine-tuned minus frozen"}


def draw_gains(material: Material, folder: Path) -> list[Drawn]:
    """One figure per probe of that kind, best backbone first; several seeds are averaged."""
    metric = primary_metric(material.card.task)
    rows = [
        row
        for row in material.rows
        if row["kind"] == KIND and row["class"] is None and row["metric"] == metric
    ]
    figures = []
    for probe in distinct(rows, "probe"):
        own = [row for row in rows if row["probe"] == probe]
        lines = {
            name: {
                line["backbone"]: line
                for line in merge_seeds(row for row in own if row["setting"] == setting)
            }
            for name, setting in SHOWN.items()
        }
        order = [
            line["backbone"] for line in sorted(lines["fine-tuned"].values(), key=better_first)
        ]
        drawn = {name: {what: lines[what][name] for what in SHOWN} for name in order}
        if not drawn:
            continue
        figures.append(
            save(
                draw_tuned(drawn, title=f"{material.name}: {probe}", metric=metric),
                folder,
                "tuned",
                material.name,
                probe,
                wide=True,
                alt=f"{metric_name(metric)} of every backbone on {material.name}, frozen and fine-tuned",
                caption=f"What {probe} gains: {metric_name(metric)} of every backbone with a head on what it gives "
                "frozen, and with the same head after both were trained further.",
            )
        )
    return figures
