"""A network of two layers with fixed settings: finds information that a linear layer cannot read from features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.options import Above0, Positive
from permafrost.probes.embeddings.features import Features, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.options import Descent
from permafrost.probes.sgd.models import Perceptron
from permafrost.probes.sgd.training import DescentSchedule, FittedModel

MOMENTUM = 0.9


@dataclass(frozen=True, kw_only=True)
class MlpOptions(Descent):
    """A network of two layers on standardised features. Its settings are fixed, without a search on validation."""

    hidden: Positive = 256
    """Units of the hidden layer."""
    learning_rate: Above0 = 0.05
    """Learning rate of gradient descent with momentum 0.9; a cosine schedule ends at 0."""


def run_mlp(
    splits: dict[str, Features], options: MlpOptions, *, device: str, seed: int
) -> Prediction:
    """Train on standardised features of train and predict the test split.

    Nothing is chosen: the last epoch is scored, and validation and `device` are not used.

    Raises
    ------
    PermafrostError : infinite or NaN weights; no samples to train on.
    """

    def build(generator, inputs: int, outputs: int, task: str) -> Perceptron:
        return Perceptron(generator, inputs, options.hidden, outputs, task)

    schedule = DescentSchedule(
        (options.learning_rate,),
        options.epochs,
        options.batch_size,
        MOMENTUM,
        options.weight_decay,
    )
    fitted = FittedModel(splits, build, schedule, standardize=True, seed=seed, where="mlp")
    if not all(np.isfinite(parameter).all() for parameter in fitted.model.parameters):
        raise PermafrostError(
            "the weights became infinite or NaN",
            where="mlp: learning_rate",
            remedy="give a smaller learning_rate or weight_decay",
        )
    names = ("hidden", "learning_rate", "epochs", "batch_size", "weight_decay")
    settings = {
        **{name: getattr(options, name) for name in names},
        "momentum": MOMENTUM,
        "parameters": sum(parameter.size for parameter in fitted.model.parameters),
        "seed": seed,
    }
    return fitted.prediction(fitted.scores("test")[0], settings, [])


run = on_embeddings(run_mlp, streams=True)
