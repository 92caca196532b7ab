"""Losses of boxes that are given by distances from a cell's centre, in strides."""

from __future__ import annotations

import torch


def centreness(sides: torch.Tensor) -> torch.Tensor:
    """(P,) 1 at the centre of a box, 0 at its sides; from distances (P, 4) left, upper, right, lower."""
    low = torch.minimum(sides[:, :2], sides[:, 2:])
    high = torch.maximum(sides[:, :2], sides[:, 2:])
    return (low / high).prod(dim=1).sqrt()


def _overlap(found: torch.Tensor, truth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(P,) intersections and unions of pairs of boxes, each given by distances from a cell's centre."""
    common = _area(torch.minimum(found, truth))
    return common, _area(found) + _area(truth) - common


def _area(sides: torch.Tensor) -> torch.Tensor:
    return (sides[:, :2] + sides[:, 2:]).prod(dim=1)


def giou_loss(found: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """1 - generalised IoU (Rezatofighi et al. 2019)."""
    common, union = _overlap(found, truth)
    hull = _area(torch.maximum(found, truth))
    return 1 - common / union + (hull - union) / hull


def iou_loss(found: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """-ln IoU (Yu et al. 2016)."""
    common, union = _overlap(found, truth)
    return union.log() - common.log()


BOX_LOSSES = {"giou": giou_loss, "iou": iou_loss}
