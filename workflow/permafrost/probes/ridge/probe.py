"""The probe for numbers: ridge regression, with a penalty chosen on validation or by leave-one-out."""

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
    """Alpha is chosen by the error on validation, or of each training sample for the fit without it. Samples of one
    scene are similar, so leaving one out is too optimistic if samples come in groups."""


def run_ridge(
    splits: dict[str, Features], options: RidgeOptions, *, device: str, seed: int
) -> Prediction:
    """Choose alpha by the mean squared error, fit and predict the test split.

    With ``choose: leave_one_out`` the error is that of each training sample for the fit without it, and
    validation only adds samples (``merge_val``). Samples of one group are also left out one by one,
    so if samples of a group are similar, the penalty is too weak. Ties go to the largest alpha;
    `device` and `seed` are not used.

    Raises
    ------
    PermafrostError : the error cannot be computed (no validation sample, or one training sample); NaN
        or infinite features.
    """
    check_splits(splits, where="ridge")
    fit, best = fit_ridge(splits["train"], splits["val"], options)
    numbers = fit.predict(splits["test"].embeddings, best.value)[:, 0]
    return Prediction(numbers, None, best.settings, best.gates)


def fit_ridge(train: Features, val: Features, options: AlphaOptions) -> tuple[Ridge, ChosenAlpha]:
    """The decomposed fit for `Ridge.predict`, and the chosen alpha; see `run_ridge`."""
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
