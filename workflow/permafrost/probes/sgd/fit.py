"""From the splits of a backbone to a trained model's answers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from permafrost.probes.embeddings.features import Features, check_splits, class_gates
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.probabilities import answers, probabilities
from permafrost.probes.embeddings.scaling import centre_and_scale, scaled
from permafrost.probes.sgd.gradient_descent import DescentSchedule, shuffled, train


class FittedModel:
    """A model trained on the train split, and the scaling that features need before it.

    Parameters
    ----------
    build : makes the model from (generator, number of features, number of classes, task).
    standardize : divide features by their standard deviation on train; they are centred anyway.

    Raises
    ------
    PermafrostError : nothing to train on, or to predict; NaN or infinite features.
    """

    def __init__(
        self,
        splits: dict[str, Features],
        build: Callable,
        schedule: DescentSchedule,
        *,
        standardize: bool,
        seed: int,
        where: str,
    ) -> None:
        check_splits(splits, where=where)
        known = splits["train"]
        self.splits, self.task = splits, known.task
        self.mean, self.scale = centre_and_scale(known.embeddings, standardize)
        generator = np.random.default_rng(seed)
        width = known.embeddings.shape[1]
        self.model = build(generator, width, len(known.classes), known.task)
        labels = known.labels if known.task == "classification" else known.labels.astype(np.float32)
        # rates that are too high are found by what they leave
        with np.errstate(over="ignore", invalid="ignore"):
            train(
                self.model,
                scaled(known.embeddings, self.mean, self.scale),
                labels,
                schedule,
                shuffled(generator, len(known.embeddings)),
            )

    def scores(self, split: str) -> np.ndarray:
        """(H, N, K) float32 probabilities of each head; NaN of one that diverged."""
        rows = scaled(self.splits[split].embeddings, self.mean, self.scale)
        with np.errstate(over="ignore", invalid="ignore"):
            logits = self.model.logits(rows)
            heads = [probabilities(logits[:, head], self.task) for head in range(logits.shape[1])]
        return np.stack(heads)

    def prediction(self, scores: np.ndarray, settings: dict, gates: list[str]) -> Prediction:
        """The answers of one head's (N, K) scores of the test split."""
        known = self.splits["train"]
        if not (known.embeddings != known.embeddings[0]).any():
            gates = [*gates, "collapsed_features"]
        gates = [*gates, *class_gates(known.labels, known.task, len(known.classes))]
        return Prediction(answers(scores, known.task), scores, settings, gates)
