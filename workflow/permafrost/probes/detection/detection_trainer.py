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
from permafrost.probes.detection.shapes.shape import HeadShape
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
        return detection_loss(
            output,
            self.targets[split].of(batch.rows),
            self.decoder.shape,
            self.options.box_loss,
        )

    def _meter(self) -> _AveragePrecision:
        return _AveragePrecision(self.decoder, self.stitcher)

    def _nothing_learned(self) -> PermafrostError:
        return PermafrostError("train has no sample", where=self.where)

    def _blame_loss(self) -> tuple[str, str]:
        return "a finite output gave it", "use a smaller learning_rate, or precision fp32"


ALPHA, GAMMA = 0.25, 2


def detection_loss(
    output: Output, chosen: BatchTargets, shape: HeadShape, kind: str
) -> torch.Tensor:
    """The loss of a batch per cell with an object, with the weights of FCOS.

    Parameters
    ----------
    kind : ``giou`` or ``iou`` for boxes; other shapes have losses of their own.
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
    total = (focal_loss(logits, truth) * counted).sum() / max(1, len(cells))
    found = output.places.flatten(0, 1)[cells]
    centred = None if output.centred is None else output.centred.flatten()[cells]
    return sum(shape.losses(found, places, centred, kind), start=total)


def focal_loss(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Focal loss of every entry (Lin et al. 2017): cross-entropy with less weight on easy entries."""
    entropy = functional.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    share = torch.sigmoid(logits)
    right = share * truth + (1 - share) * (1 - truth)
    weight = ALPHA * truth + (1 - ALPHA) * (1 - truth)
    return weight * entropy * (1 - right) ** GAMMA
