"""Training a detection head, judged by average precision on whole images."""

from __future__ import annotations

import torch
from torch import nn

from permafrost.core.errors import PermafrostError
from permafrost.metrics.objects.detected import Detected
from permafrost.probes.dense.head_trainer import HeadTrainer, autocast
from permafrost.probes.dense.map_stream import MapBatch
from permafrost.probes.detection.decode import Decoder
from permafrost.probes.detection.losses import detection_loss
from permafrost.probes.detection.model import Output
from permafrost.probes.detection.scoring import average_precision
from permafrost.probes.detection.stitching import Stitcher
from permafrost.probes.detection.targets import Targets


class _AveragePrecision:
    """Average precision of what was added, which is all of a split in its order."""

    def __init__(self, decoder: Decoder, stitcher: Stitcher) -> None:
        self.decoder, self.stitcher = decoder, stitcher
        self.windows: list[Detected] = []

    def add(self, batch: MapBatch, output: Output) -> None:
        scales = self.stitcher.split.scales[batch.rows]
        self.windows += self.decoder.samples(output, scales)

    def value(self) -> float | None:
        return average_precision(self.stitcher.split, self.stitcher.images(self.windows))


class DetectionTrainer(HeadTrainer):
    """Trains heads for one split of train and one of validation.

    Parameters
    ----------
    targets : of ``train`` and ``val``.
    decoder, stitcher : how outputs become detections of the images of validation.
    others : see `HeadTrainer`.
    """

    measure = "val_ap"
    unmeasured = "no object"

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
