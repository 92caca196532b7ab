"""The loss of a detection head: focal loss of classes, a loss of places, and one of centre-ness."""

from __future__ import annotations

import torch
from torch.nn import functional

from permafrost.probes.detection.model import Output
from permafrost.probes.detection.targets import BatchTargets

ALPHA, GAMMA = 0.25, 2


def detection_loss(output: Output, chosen: BatchTargets, kind: str) -> torch.Tensor:
    """The loss of a batch, per cell that has an object; as FCOS weighs its parts.

    Parameters
    ----------
    kind : ``giou`` or ``iou``, of boxes; points have the smooth L1 loss.
    """
    device = output.logits.device
    cells = torch.from_numpy(chosen.cells).to(device)
    classes = torch.from_numpy(chosen.classes).to(device)
    places = torch.from_numpy(chosen.places).to(device)
    logits = output.logits.flatten(0, 1)
    truth = torch.zeros_like(logits)
    truth[cells, classes] = 1
    counted = torch.ones(len(logits), 1, device=device)
    counted[torch.from_numpy(chosen.ignored).to(device)] = 0
    number = max(1, len(cells))
    total = (focal_loss(logits, truth) * counted).sum() / number
    found = output.places.flatten(0, 1)[cells]
    if output.centred is None:
        return total + functional.smooth_l1_loss(found, places, reduction="sum") / number
    central = centreness(places)
    losses = BOX_LOSSES[kind](found, places) * central
    total = total + losses.sum() / central.sum().clamp(min=1e-6)
    centred = output.centred.flatten()[cells]
    return total + (
        functional.binary_cross_entropy_with_logits(centred, central, reduction="sum") / number
    )


def focal_loss(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Of every entry (Lin et al. 2017): cross entropy, little of it where the answer is clear."""
    entropy = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    share = torch.sigmoid(logits)
    right = share * truth + (1 - share) * (1 - truth)
    weight = ALPHA * truth + (1 - ALPHA) * (1 - truth)
    return weight * entropy * (1 - right) ** GAMMA


def centreness(sides: torch.Tensor) -> torch.Tensor:
    """(P,) 1 in the middle of a box, 0 at its sides; of distances (P, 4) left, upper, right, lower."""
    low = torch.minimum(sides[:, :2], sides[:, 2:])
    high = torch.maximum(sides[:, :2], sides[:, 2:])
    return (low / high).prod(dim=1).sqrt()


def _overlap(found: torch.Tensor, truth: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(P,) intersections and unions of boxes around one cell's centre each."""
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
