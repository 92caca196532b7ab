"""The page's section on derived datasets that belong together: curves of label shares, and matrices of transfers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from permafrost.report.figures.setting_curves import Point, draw_setting_curves
from permafrost.report.material.dataset import Drawn, save
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.several import area_block, each_area, each_loss, loss_blocks
from permafrost.statistics.leaderboard.rows import metric_name
from permafrost.statistics.several_datasets import Area, Read, curves_of

#: predictions on a dataset, images times backbones: with more it takes long, and the command has them
_MOST = 200_000
_NOTE = "Bars: confidence intervals of each score; the table has those of the areas."


def several_section(
    plan: Mapping, rows: list[dict], read: Read, folder: Path
) -> tuple[list[Block], list[Drawn]]:
    """Tables of areas and of transfers, and a figure per curve and probe.

    Parameters
    ----------
    rows : primary rows, seeds merged; where they are of more than `_MOST` predictions, nothing is computed.
    read : gives kept predictions. folder : for the figures.
    """
    count = Counter[tuple[str, str]]()
    for row in rows:
        count[row["dataset"], row["probe"]] += row["n_test"]

    def few(dataset: str, probe: str) -> Mapping:
        return read(dataset, probe) if count[dataset, probe] <= _MOST else {}

    scores = {(row["dataset"], row["probe"], row["backbone"]): row for row in rows}
    blocks, figures = [], []
    for found, compared in each_area(plan, few):
        blocks.append(area_block(found, compared))
        figures.append(_curves(plan, found, scores, folder))
    for one in each_loss(plan, few):
        blocks += loss_blocks(*one)
    return blocks, figures


def _curves(plan: Mapping, found: list[Area], scores: Mapping[tuple, dict], folder: Path) -> Drawn:
    first = found[0]
    (curve,) = (one for one in curves_of(plan["datasets"]) if one.name == first.curve)
    metric = metric_name(first.metric)
    lines = {
        one.backbone: [
            Point(
                share,
                *(
                    scores[name, one.probe, one.backbone][key]
                    for key in ("value", "lower", "upper")
                ),
            )
            for share, name in curve.datasets.items()
            if (name, one.probe, one.backbone) in scores
        ]
        for one in found
    }
    return save(
        draw_setting_curves(
            {"": lines},
            title=f"{first.of}: {first.probe}",
            across="share of the labels (%)",
            up=metric,
            note=_NOTE,
            scale=100,
        ),
        folder,
        "shares",
        first.curve,
        first.probe,
        wide=True,
        alt=f"{metric} against the share of the labels of {first.of} with {first.probe}",
        caption=f"{first.probe}: {metric} with shares of the labels of {first.of}.",
    )
