"""Train a detection head, with average precision on whole images as validation metric; and its loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from permafrost.core.errors import PermafrostError
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.head_trainer import HeadTrainer, autocast
from permafrost.probes.dense.map_stream import MapBatch
from permafrost.probes.detection.decode import Decoder
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.scoring import average_precision
from permafrost.probes.detection.stitching import Stitcher
from permafrost.probes.detection.targets import BatchTargets, Targets

if TYPE_CHECKING:
    from permafrost.probes.detection.probe import DetectionOptions


class _AveragePrecision:
    """Average precision of all added batches, which must be a whole split in order."""

    def __init__(self, decoder: Decoder, stitcher: Stitcher) -> None:
        self.decoder, self.stitcher = decoder, stitcher
        self.windows: list[Detected] = []

    def add(self, batch: MapBatch, output: Output) -> None:
        scales = self.stitcher.split.scales[batch.rows]
        self.windows += self.decoder.samples(output, scales)

    def value(self) -> float | None:
        return average_precision(self.stitcher.split, self.stitcher.images(self.windows))


class DetectionTrainer(HeadTrainer[MapBatch]):
    """Trains detection heads.

    Parameters
    ----------
    targets : targets of ``train`` and ``val``.
    decoder, stitcher : convert outputs to detections on validation images.
    others : see `HeadTrainer`.
    """

    measure = "val_ap"
    unmeasured = "no object"
    options: DetectionOptions

    def __init__(
        self,
        build,
        train,
        val,
        *,
        targets: dict[str, Targets],
        decoder: Decoder,
        stitcher: Stitcher,
        **others,
    ) -> None:
        super().__init__(build, train, val, **others)
        self.targets, self.decoder, self.stitcher = targets, decoder, stitcher

    def _forward(self, head: nn.Module, batch: MapBatch) -> Output:
        with autocast(self.device, self.options.precision):
            return head(batch.fed())

    def _loss(self, output: Output, batch: MapBatch, split: str) -> torch.Tensor:
        return detection_loss(output, self.targets[split].of(batch.rows), self.options.box_loss)

    def _meter(self) -> _AveragePrecision:
        return _AveragePrecision(self.decoder, self.stitcher)

    def _nothing_learned(self) -> PermafrostError:
        return PermafrostError("train has no sample", where=self.where)

    def _blame_loss(self) -> tuple[str, str]:
        return "a finite output gave it", "use a smaller learning_rate, or precision fp32"


ALPHA, GAMMA = 0.25, 2


def detection_loss(output: Output, chosen: BatchTargets, kind: str) -> torch.Tensor:
    """The loss of a batch per cell with an object, with the weights of FCOS.

    Parameters
    ----------
    kind : ``giou`` or ``iou`` for boxes; points have the smooth L1 loss.
    """
    device = output.logits.device
    # a blocking copy would wait for all queued work of the device
    cells, classes, places, ignored = (
        torch.from_numpy(one).to(device, non_blocking=True)
        for one in (chosen.cells, chosen.classes, chosen.places, chosen.ignored)
    )
    logits = output.logits.flatten(0, 1)
    truth = torch.zeros_like(logits)
    truth[cells, classes] = 1
    counted = torch.ones(len(logits), 1, device=device)
    counted[ignored] = 0
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
    """Focal loss of every entry (Lin et al. 2017): cross-entropy with less weight on easy entries."""
    entropy = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    share = torch.sigmoid(logits)
    right = share * truth + (1 - share) * (1 - truth)
    weight = ALPHA * truth + (1 - ALPHA) * (1 - truth)
    return weight * entropy * (1 - right) ** GAMMA


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
