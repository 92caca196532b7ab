"""Fine-tuning for one target per image: a class, a set of labels, or a number."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch

from permafrost.core.errors import PermafrostError
from permafrost.features.health import CollapseGate
from permafrost.probes.embeddings.features import Features, class_gates
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.probes.fine_tune.image_splits import ImageSplit
from permafrost.probes.fine_tune.models import VectorHead
from permafrost.probes.fine_tune.streams import FrozenStream
from permafrost.probes.fine_tune.tasks import Answer, learned_task
from permafrost.probes.job import ImageProbeJob

# least scale of a feature, as a share of the largest scale
LEAST_SPREAD = 0.01


class VectorProblem:
    """A linear layer on pooled features.

    Parameters
    ----------
    frozen : streams of the frozen backbone's features, by split; each is read once.
    """

    def __init__(
        self, splits: dict[str, ImageSplit], frozen: dict[str, FrozenStream], where: str
    ) -> None:
        self.where, train = where, splits["train"]
        self.features = {
            name: Features(
                embeddings_of(frozen[name]),
                split.labels,
                split.samples,
                {"gates": [], **split.attributes},
            )
            for name, split in splits.items()
        }
        self.task = learned_task(self.features["train"])
        self.gates = class_gates(train.labels, train.task, len(train.classes))
        check = CollapseGate()
        check.update(self.features["test"].embeddings)
        self.gates += check.gates()
        self._standard = cast(
            tuple[torch.Tensor, torch.Tensor],
            tuple(map(torch.from_numpy, standard_of(self.features["train"].embeddings))),
        )

    def build(self) -> VectorHead:
        """A head with parameters drawn from torch's global generator."""
        return VectorHead(*self._standard, self.task.outputs)

    @torch.no_grad()
    def answer(self, model, batches) -> np.ndarray:
        """(N, outputs) of the test split, from batches in order."""
        output = np.concatenate([model(*batch.fed).float().cpu().numpy() for batch in batches()])
        if not np.isfinite(output).all():
            row = int(np.flatnonzero(~np.isfinite(output).all(axis=1))[0])
            name = self.features["test"].samples["sample_id"][row].as_py()
            raise PermafrostError(
                f"the trained model gives NaN or infinity for the test sample {name!r}",
                where=self.where,
                remedy="use a smaller learning_rate, select: best, or precision fp32",
            )
        return output

    def write(self, job: ImageProbeJob, tuned: Answer, frozen: Answer) -> None:
        """Write the table of `embeddings.settings`; the fine-tuned backbone is ranked."""
        made = {one.name: self._prediction(one) for one in (tuned, frozen)}
        counts = {f"n_{name}": len(self.features[name].embeddings) for name in ("train", "val")}
        settings = [
            Setting(
                one.name,
                self.task.answer(made[one.name]),
                one.brief,
                gates=made[one.name].gates,
                **counts,
            )
            for one in (tuned, frozen)
        ]
        predictions = PredictionsBySetting(
            made[tuned.name], settings, paired=(tuned.name, frozen.name)
        )
        predictions.write(job, self.features)

    def _prediction(self, one: Answer) -> Prediction:
        return self.task.prediction(one.output, one.settings, [*one.gates, *self.gates])


def standard_of(embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(K,) mean and scale of features, float64: the standard deviation, or a hundredth of the largest one.

    The lower bound matters for features that hardly vary at first: they may vary during training, and must not become
    large by division.
    """
    spread = embeddings.std(axis=0, dtype=np.float64)
    largest = float(spread.max(initial=0.0))
    scale = np.maximum(spread, LEAST_SPREAD * largest) if largest else np.ones_like(spread)
    return embeddings.mean(axis=0, dtype=np.float64), scale


def embeddings_of(stream: FrozenStream) -> np.ndarray:
    """(N, K) float32, in the order of the store."""
    parts = [batch.fed[0].cpu().numpy() for batch in stream.in_order()]
    return np.concatenate(parts) if parts else np.empty((0, *stream.made[0]), np.float32)
