"""Run a probe once per fold of a dataset and pool the answers, so that every image is tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from permafrost.probes.embeddings.features import Features, chosen_rows
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.job import ProbeJob


def run_on_folds(probe: Callable, job: ProbeJob, splits: dict[str, Features], asked: dict) -> None:
    """Write the table of the answers of all folds.

    Parameters
    ----------
    probe : as in `features.on_embeddings`; returns a `Prediction`.
    splits : with `folds`; each test sample is in one fold.
    asked : further arguments of the probe. The same seed serves all folds.
    """
    count = splits["test"].folds.shape[1]
    found = [probe(_of_fold(splits, fold), job.options, **asked) for fold in range(count)]
    _pooled(found, splits["test"].folds).write(job, _smallest(splits))


def _of_fold(splits: dict[str, Features], fold: int) -> dict[str, Features]:
    return {name: _take(one, np.flatnonzero(one.folds[:, fold])) for name, one in splits.items()}


def _take(split: Features, rows: np.ndarray) -> Features:
    return replace(
        split,
        embeddings=chosen_rows(split.embeddings, rows),
        labels=split.labels[rows],
        samples=split.samples.take(rows),
        folds=None,
    )


def _pooled(found: list[Prediction], folds: np.ndarray) -> Prediction:
    """The answers in the order of the test samples; settings by fold."""
    order = np.concatenate([np.flatnonzero(folds[:, fold]) for fold in range(len(found))])
    place = np.argsort(order)
    scores = [one.scores for one in found]
    return Prediction(
        np.concatenate([one.prediction for one in found])[place],
        None if scores[0] is None else np.concatenate(scores)[place],
        {"folds": [_scalars(one.settings) for one in found]},
        sorted({gate for one in found for gate in one.gates}),
    )


def _scalars(settings: dict) -> dict:
    """The settings without lists, such as scores of all values that were tried."""
    return {key: one for key, one in settings.items() if not isinstance(one, list | dict)}


def _smallest(splits: dict[str, Features]) -> dict[str, Features]:
    """The splits whose numbers of samples the table states: train and validation of the fold with fewest."""
    fewest = int(splits["train"].folds.sum(axis=0).argmin())
    return {**_of_fold(splits, fewest), "test": splits["test"]}
