"""The page's table of what extraction took, if backbones were not profiled."""

from __future__ import annotations

from collections.abc import Mapping

from permafrost.report.material.dataset import Material
from permafrost.report.material.extraction_times import ExtractionTime, brief_ms, device_words
from permafrost.report.notation import interval_of, number
from permafrost.report.tables.blocks import Block
from permafrost.statistics.leaderboard.rows import better_first, finite, metric_name


def extraction_section(
    material: Material, times: Mapping[tuple[str, str], ExtractionTime]
) -> list[Block]:
    """A table of the backbones of a dataset with a time, best score first; empty without any.

    Parameters
    ----------
    times : (dataset, backbone) -> time.
    """
    own = {name: one for (dataset, name), one in times.items() if dataset == material.name}
    best: dict[str, dict] = {}
    for line in sorted((one for one in material.lines if finite(one["value"])), key=better_first):
        best.setdefault(line["backbone"], line)
    lines = [
        [
            name,
            f"{number(line['value'])} {interval_of(line)}",
            f"{metric_name(line['metric'])}, {line['probe']}",
            brief_ms(own[name].milliseconds),
            f"{own[name].images:,}",
        ]
        for name, line in best.items()
        if name in own
    ]
    if not lines:
        return []
    header = ["backbone", "best score", "metric, probe", "ms per image", "images"]
    foot = (
        f"Measured on {device_words(own.values())}, while other jobs may have run: compare large differences only. "
        "The option profile of the configuration measures the network alone, with FLOPs, memory and energy."
    )
    return [
        Block("Time of extraction", [header, *lines], frozenset(header[1:2] + header[3:]), foot)
    ]
