"""Relative losses on harder images as text."""

from __future__ import annotations

import math

from permafrost.report.notation import NONE, interval, number
from permafrost.report.tables.blocks import Block
from permafrost.statistics.leaderboard.harder import Loss
from permafrost.statistics.leaderboard.rows import finite, metric_name

UNCHANGED_WORDS = "reads none of the changed bands"


def percent(value: float) -> str:
    """`value` in percent without the sign, with one decimal place."""
    return f"{100 * value:.1f}"


def loss_blocks(losses: list[Loss]) -> list[Block]:
    """One block per dataset, probe and degradation: a line per backbone, that with the smallest mean loss first."""
    blocks = []
    for of, probe, degradation in dict.fromkeys(
        (one.of, one.probe, one.degradation) for one in losses
    ):
        own = [
            one
            for one in losses
            if (one.of, one.probe, one.degradation) == (of, probe, degradation)
        ]
        severities = sorted({one.severity for one in own})
        lines, unchanged = [], False
        for backbone in dict.fromkeys(one.backbone for one in own):
            each = {one.severity: one for one in own if one.backbone == backbone}
            known = [each[one].loss if one in each else math.nan for one in severities]
            mean = sum(known) / len(known)
            unchanged |= any(one.unchanged for one in each.values())
            cells = [_cell(each.get(one)) for one in severities]
            clean = number(next(iter(each.values())).clean)
            means = [percent(mean) if finite(mean) else NONE] if len(severities) > 1 else []
            order = (not finite(mean), mean if finite(mean) else 0.0, backbone)
            lines.append((order, [backbone, clean, *cells, *means]))
        named = [f"severity {one}" for one in severities]
        header = ["backbone", "clean", *named, *(["mean"] if len(named) > 1 else [])]
        words = f"{degradation.replace('_', ' ')}, % of {metric_name(own[0].metric)} lost"
        foot = f"  unchanged: the backbone {UNCHANGED_WORDS}" if unchanged else ""
        table = [header, *(line for _, line in sorted(lines))]
        blocks.append(Block(f"{of} · {probe} · {words}", table, frozenset(header[1:]), foot))
    return blocks


def _cell(one: Loss | None) -> str:
    if one is None or not finite(one.loss):
        return "unchanged" if one is not None and one.unchanged else NONE
    return f"{percent(one.loss)} {interval(one.lower, one.upper, percent)}".rstrip()
