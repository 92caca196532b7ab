"""The linear probe: features of a backbone in, test predictions of the chosen model out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.probes.embeddings.features import Features, class_gates, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.linear import LinearSettings, fit_linear
from permafrost.probes.options import CGrid

if TYPE_CHECKING:
    from permafrost.core.targets import Labels


@dataclass(frozen=True, kw_only=True)
class LinearOptions(CGrid):
    """A linear classifier, with regularisation chosen on validation."""

    solver: Literal["lbfgs", "adam"] = "lbfgs"
    """Optimiser of the fit."""


def run_linear(
    splits: dict[str, Features], options: LinearOptions, *, device: str, seed: int
) -> Prediction:
    """Sweep C on train, choose on validation, refit, and predict the test split."""
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    grid = np.logspace(np.log10(options.c_min), np.log10(options.c_max), options.c_count)
    settings = LinearSettings(
        grid,
        merge_val=options.merge_val,
        standardize=options.standardize,
        solver=options.solver,
        ties=options.ties,
        seed=seed,
        device=resolve_device(device, "torch"),
    )
    fit = fit_linear(
        (train.embeddings, train.labels),
        (val.embeddings, val.labels),
        settings,
        n_classes=len(train.classes),
        task=train.task,
    )
    scores = fit.scores(test.embeddings)
    gates = [*fit.gates, *class_gates(train.labels, train.task, len(train.classes))]
    return Prediction(cast("Labels", train.targets).answers(scores), scores, fit.settings, gates)


run = on_embeddings(run_linear, streams=True)
