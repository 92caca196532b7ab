"""The page's sections on derived backbones: on a dataset's page all of them, on the overview what they allow."""

from __future__ import annotations

import math
from pathlib import Path

from permafrost.core.text import bytes_words
from permafrost.report.figures.depth_curves import Depths, draw_depth_curves
from permafrost.report.figures.setting_curves import Point, draw_setting_curves
from permafrost.report.material.dataset import Drawn, save
from permafrost.report.notation import interval, interval_of, number, p_value_text, signed
from permafrost.report.tables.derived import VERDICTS, block_words, steps_words
from permafrost.statistics.leaderboard.derived import DerivedLine, smallest
from permafrost.statistics.leaderboard.rows import better_first, distinct, finite, metric_name

_NOTE = "Bars: confidence intervals of each score; the table has those of the differences."


def derived_section(
    lines: list[DerivedLine], rows: list[dict], folder: Path
) -> tuple[list[dict], list[Drawn]]:
    """Template values of the lines of one dataset, and figures per probe: score against depth, and against bytes of a
    sample.

    Parameters
    ----------
    lines : of one dataset. rows : its primary rows of the parents. folder : for the figures.
    """
    figures = []
    for probe in dict.fromkeys(one.row["probe"] for one in lines):
        own = [one for one in lines if one.row["probe"] == probe]
        parents = {row["backbone"]: row for row in rows if row["probe"] == probe}
        figures += _by_depth(own, parents, folder)
        curves = _curves([one for one in own if one.block is None], parents)
        if any(len({point.x for point in points}) > 1 for points in curves.values()):
            dataset, metric = own[0].row["dataset"], metric_name(own[0].row["metric"])
            figures.append(
                save(
                    draw_setting_curves(
                        {"": curves},
                        title=f"{dataset}: {probe}",
                        across="bytes of a sample",
                        up=metric,
                        note=_NOTE,
                    ),
                    folder,
                    "derived",
                    dataset,
                    probe,
                    wide=True,
                    alt=f"{metric} against bytes of a sample with {probe} on {dataset}",
                    caption=f"{probe}: {metric} of backbones and their derived forms, by the bytes of a sample.",
                )
            )
    return [_values(one) for one in lines], figures


def _by_depth(lines: list[DerivedLine], parents: dict[str, dict], folder: Path) -> list[Drawn]:
    """The figure of score against depth of one dataset and probe; none without blocks of two depths."""
    curves = _depths(lines, parents)
    if len({point.x for curve in curves.values() for point in curve.points}) < 2:
        return []
    row = lines[0].row
    dataset, probe, metric = row["dataset"], row["probe"], metric_name(row["metric"])
    return [
        save(
            draw_depth_curves(curves, title=f"{dataset}: {probe}", up=metric),
            folder,
            "depth",
            dataset,
            probe,
            wide=True,
            alt=f"{metric} against depth with {probe} on {dataset}",
            caption=f"{probe}: {metric} of the features of blocks, by their depth in the backbone.",
        )
    ]


def _depths(lines: list[DerivedLine], parents: dict[str, dict]) -> dict[str, Depths]:
    """Parent, with the steps after the depth if there are any -> its scores by depth; the best parent first."""
    curves: dict[str, Depths] = {}
    known = [one for one in lines if one.block and one.parent in parents]
    for one in sorted(known, key=lambda one: (*better_first(parents[one.parent]), one.depth)):
        after = steps_words(one.block["after"])
        name = f"{one.parent}, {after}" if after else one.parent
        if finite(one.row["value"]):
            curve = curves.setdefault(name, Depths(parents[one.parent]["value"], []))
            score = (one.row[key] for key in ("value", "lower", "upper"))
            curve.points.append(Point(one.depth, *score))
    return curves


def _curves(lines: list[DerivedLine], parents: dict[str, dict]) -> dict[str, list[Point]]:
    """Parent -> its points and those of its smaller forms, of each size the best."""
    curves: dict[str, list[Point]] = {}
    for parent in dict.fromkeys(one.parent for one in lines):
        own = [one for one in lines if one.parent == parent and one.alone]
        points = [(one.bytes, one.row) for one in own]
        if points and parent in parents:
            points.append((own[0].bytes_of_parent, parents[parent]))
        best: dict[int, dict] = {}
        for size, row in points:
            if size and finite(row["value"]):
                best[size] = min(best.get(size, row), row, key=better_first)
        curves[parent] = [
            Point(float(size), row["value"], row["lower"], row["upper"])
            for size, row in sorted(best.items())
        ]
    return {name: points for name, points in curves.items() if points}


def _values(line: DerivedLine) -> dict:
    return {
        "dataset": line.row["dataset"],
        "probe": line.row["probe"],
        "metric": metric_name(line.row["metric"]),
        "parent": line.parent,
        "depth": line.depth,
        "block": block_words(line),
        "backbone": line.row["backbone"],
        "bytes": line.bytes,
        "size": None if line.bytes is None else bytes_words(line.bytes),
        "share": line.share,
        "value": line.row["value"],
        "score": number(line.row["value"]),
        "interval": interval_of(line.row),
        "difference": line.difference if finite(line.difference) else None,
        "apart": signed(line.difference),
        "difference_interval": interval(line.lower, line.upper, signed),
        "p": p_value_text(line.p_adjusted),
        "verdict": VERDICTS[line.verdict],
    }


def derived_overview(lines: list[DerivedLine]) -> dict | None:
    """Template values for the overview: the smallest forms not significantly worse, and joined backbones.

    None without lines.
    """
    if not lines:
        return None
    by_backbone: dict[tuple, list[DerivedLine]] = {}
    for one in lines:
        key = one.row["dataset"], one.row["probe"], one.row["backbone"]
        by_backbone.setdefault(key, []).append(one)
    joined = [max(each, key=_full) for each in by_backbone.values() if len(each) > 1]
    names = distinct([one.row for one in lines], "backbone")
    return {
        "count": len(names),
        "smallest": [_values(one) for one in smallest(lines)],
        "joined": [_values(one) for one in joined],
    }


def _full(line: DerivedLine) -> float:
    """The parent's score, negative where less is better."""
    if line.full is None or not finite(line.full):
        return -math.inf
    return line.full if line.row["higher_is_better"] else -line.full
