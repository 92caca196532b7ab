"""The probe for numbers: ridge regression, its penalty chosen on validation or by leaving one out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.joined_rows import JoinedRows
from permafrost.probes.embeddings.arithmetic import scale_gates
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.ridge.alphas import AlphaOptions, ChosenAlpha
from permafrost.probes.ridge.solver import Ridge


@dataclass(frozen=True, kw_only=True)
class RidgeOptions(AlphaOptions):
    """Ridge regression of a number, for all alphas from one decomposition of the features."""

    choose: Literal["validation", "leave_one_out"] = "validation"
    """Alpha is chosen on validation, or by each training sample in the fit without it. Neighbours of one scene
    reveal each other's target, so leaving one out says little if samples come in groups."""


def run_ridge(
    splits: dict[str, Features], options: RidgeOptions, *, device: str, seed: int
) -> Prediction:
    """Choose alpha by the mean squared error, fit and predict the test split.

    With ``choose: leave_one_out`` the error is that of each training sample in the fit without it, and
    validation only adds samples (``merge_val``). Samples of one group are then left out one by one
    too, so where groups resemble each other the penalty comes out weak. Of equals the largest alpha
    is taken; `device` and `seed` are not used.

    Raises
    ------
    PermafrostError : the error cannot be measured: no validation sample, or one training sample; NaN
        or infinite features.
    """
    check_splits(splits, where="ridge")
    fit, best = fit_ridge(splits["train"], splits["val"], options)
    numbers = fit.predict(splits["test"].embeddings, best.value)[:, 0]
    return Prediction(numbers, None, best.settings, best.gates)


def fit_ridge(train: Features, val: Features, options: AlphaOptions) -> tuple[Ridge, ChosenAlpha]:
    """The decomposed fit whose `Ridge.predict` answers, and the alpha that is chosen; see `run_ridge`."""
    alphas, standardize = options.alphas, options.standardize
    merged = options.merge_val and len(val.labels)
    whole = _joined(train, val) if merged else (train.embeddings, train.labels)
    if options.choose == "leave_one_out":
        fit = Ridge.of(*_at_least_two(*whole), standardize=standardize)
        errors = fit.left_out(whole[0], alphas)
    else:
        fit = Ridge.of(*_at_least_two(train.embeddings, train.labels), standardize=standardize)
        errors = _on_validation(fit, val, alphas)
    errors **= 2
    scores = np.sqrt(np.mean(errors, axis=0))
    if merged and options.choose == "validation":
        fit = Ridge.of(*whole, standardize=standardize)
    gates = scale_gates(fit.scale, standardize)
    best = ChosenAlpha.of(options, scores, metric="rmse", directions=fit.directions, gates=gates)
    return fit, best


run = on_embeddings(run_ridge, streams=True)


def _joined(train: Features, val: Features) -> tuple[JoinedRows, np.ndarray]:
    return (
        JoinedRows(train.embeddings, val.embeddings),
        np.concatenate([train.labels, val.labels]),
    )


def _at_least_two(features, targets: np.ndarray) -> tuple:
    if len(targets) < 2:
        raise PermafrostError(
            f"a fit needs two samples, train has {len(targets)}",
            where="ridge",
            remedy="give the dataset a larger train split",
        )
    return features, targets


def _on_validation(fit: Ridge, val: Features, alphas: np.ndarray) -> np.ndarray:
    """(N, A) errors on validation."""
    if not len(val.labels):
        raise PermafrostError(
            "alpha is chosen on validation, which has no sample",
            where="ridge: choose",
            remedy="use choose: leave_one_out, or a dataset with validation",
        )
    return fit.predict(val.embeddings, alphas) - val.labels[:, None]
