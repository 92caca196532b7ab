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


# a direction this unsure is none
_UNSURE = 0.05
# keeps the root of the distance differentiable at 0
_TINY = 1e-7


def hellinger(found: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """(P,) Hellinger distances of the Gaussians of oriented boxes (Llerena et al. 2021, Probabilistic IoU), in [0, 1].

    Parameters
    ----------
    found, truth : (P, 6) or more: dx, dy, w, h, and a pair whose direction is twice that of w; see
        `shapes.oriented`.
    """
    first, second = _covariance(found), _covariance(truth)
    xx, yy, xy = ((a + b) / 2 for a, b in zip(first, second, strict=True))
    det = _det(xx, yy, xy)
    x, y = (found[:, :2] - truth[:, :2]).unbind(dim=1)
    apart = (yy * x * x + xx * y * y - 2 * xy * x * y) / (8 * det)
    spread = (det.log() - (_det(*first).log() + _det(*second).log()) / 2) / 2
    likeness = (-(apart + spread).clamp(min=0, max=100)).exp()
    return (1 - likeness + _TINY).sqrt()


def _covariance(box: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """xx, yy and xy of the Gaussian with the moments of a box; an unsure direction makes it rounder."""
    wide, tall = (box[:, 2:4] ** 2 / 12).clamp(min=1e-6).unbind(dim=1)
    turn = box[:, 4:6]
    turn = turn / (turn.square().sum(dim=1, keepdim=True) + _UNSURE**2).sqrt()
    mean, half = (wide + tall) / 2, (wide - tall) / 2
    return mean + half * turn[:, 0], mean - half * turn[:, 0], half * turn[:, 1]


def _det(xx: torch.Tensor, yy: torch.Tensor, xy: torch.Tensor) -> torch.Tensor:
    return (xx * yy - xy * xy).clamp(min=1e-12)
