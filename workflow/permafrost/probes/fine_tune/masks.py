"""Fine-tuning for a class per pixel: a segmentation head on maps of the backbone's layers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from permafrost.probes.dense.map_splits import Layer, mask_gates
from permafrost.probes.dense.mask_scoring import MaskTask, score_batches
from permafrost.probes.dense.tables import MaskRows, Outcome, write_masks
from permafrost.probes.fine_tune.image_splits import ImageSplit
from permafrost.probes.fine_tune.models import MapHead, OnFrozen
from permafrost.probes.fine_tune.options import FineTuneOptions
from permafrost.probes.fine_tune.tasks import Answer, Masks
from permafrost.probes.job import ImageProbeJob
from permafrost.probes.segmentation.heads import build_head
from permafrost.probes.segmentation.losses import Loss

COLUMN = "setting_confusions"


class MaskProblem:
    """A segmentation head on maps.

    Parameters
    ----------
    names : names of the layers, coarse to fine.
    shapes : shapes of their maps, (C, H, W) each.
    """

    def __init__(
        self,
        job: ImageProbeJob[FineTuneOptions],
        splits: dict[str, ImageSplit],
        names,
        shapes,
        device: torch.device,
    ) -> None:
        train = splits["train"]
        self.job, self.splits, self.options = job, splits, job.options
        self.layers = [Layer(name, "", *shape) for name, shape in zip(names, shapes, strict=True)]
        self.gates = mask_gates(splits)
        with torch.random.fork_rng(devices=[]):
            self.build()  # refuses maps that do not fit the head before any training
        loss = Loss.of(job.options.loss, train, device, job.where)
        self._described = loss.described
        self.task = Masks(loss, MaskTask.of(train))

    def build(self) -> MapHead:
        """A head with parameters drawn from torch's global generator."""
        train = self.splits["train"]
        head = build_head(
            self.options.head,
            [layer.channels for layer in self.layers],
            len(train.classes),
            hidden=self.options.hidden,
            sizes=[layer.size for layer in self.layers],
            where=f"{self.job.where}, head {self.options.head}",
        )
        return MapHead(head, train.working_size, self.options.precision)

    def answer(self, model, batches) -> MaskRows:
        """The rows of all test images, from batches in order."""
        rows = MaskRows(self.splits["test"], self.job, lambda row, mask: None)

        def predict(batch, part: slice, size) -> torch.Tensor:
            if isinstance(model, OnFrozen):
                features, maps = batch.fed
                return model(features[part], [x[part] for x in maps], size=size)
            images, told = batch.fed
            return model(
                images[part], {name: values[part] for name, values in told.items()}, size=size
            )

        score_batches(rows, batches(), predict)
        return rows

    def write(self, job: ImageProbeJob, tuned: Answer, frozen: Answer) -> None:
        """Write the table of a segmentation probe, plus the confusion matrices of both settings."""
        about = {
            "head": self.options.head,
            "layers": [layer.name for layer in self.layers],
            "working_size": list(self.splits["train"].working_size),
            "loss": self._described,
            "parameters": tuned.settings["trainable_parameters"],
        }
        gates = [*tuned.gates, *self.gates]
        write_masks(
            job,
            self.splits,
            tuned.output.table().append_column(COLUMN, _confusions(tuned, frozen)),
            Outcome(self.layers, {**about, **tuned.settings}, gates),
            head=self.options.head,
            scored_settings=[self._setting(one) for one in (tuned, frozen)],
            paired=[tuned.name, frozen.name],
        )

    def _setting(self, one: Answer) -> dict:
        counts = {f"n_{name}": len(self.splits[name]) for name in ("train", "val")}
        gates = [*one.gates, *self.gates]
        return {"name": one.name, "settings": one.brief, "gates": gates, "draw": None, **counts}


def _confusions(*answers: Answer) -> pa.Array:
    """For every image the matrices of all settings, flattened in order."""
    each = [np.stack(one.output.confusion) for one in answers]
    whole = np.stack(each, axis=1).astype(np.int64)
    return pa.FixedSizeListArray.from_arrays(pa.array(whole.reshape(-1)), whole[0].size)
