"""Nearest neighbours under many settings: every k, metric and weighting from one search per metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.probes.embeddings.choosing import score_on_validation, validation_metric
from permafrost.probes.embeddings.features import Features, class_gates, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.probes.knn.search import neighbours, vote
from permafrost.probes.knn.weights import similarities, weighted_vote


@dataclass(frozen=True)
class KnnSweepOptions:
    """See ``knn_sweep`` in the schema of the configuration."""

    k: list[int]
    metrics: list[str]
    weights: list[str]
    temperature: float


def run_knn_sweep(
    splits: dict[str, Features], options: KnnSweepOptions, *, device: str, seed: int
) -> PredictionsBySetting:
    """Score the test split under every setting; the best on validation is what is ranked.

    Neighbours are those in train, for validation too: nothing is fitted that validation could be
    added to. Of settings that are equal on validation the first is taken: metrics and weightings in
    the order of the options, and the smallest k.
    """
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    ks, gates = possible_ks(options.k, len(train.embeddings))
    tried, best = [], None
    for settings, on_val, on_test in _answers(train, val, test, ks, options, device):
        value = score_on_validation(val.labels, *on_val, train.task)
        tried.append((settings | {"val_score": value}, on_test))
        if best is None or value > tried[best][0]["val_score"]:
            best = len(tried) - 1
    chosen, (scores, prediction) = tried[best]
    gates += class_gates(train.labels, train.task, len(train.classes))
    if len(ks) > 1 and chosen["k"] == ks[-1]:
        gates.append("best_k_on_edge")
    grid = [
        {"setting": name_of(settings), "val_score": settings["val_score"]} for settings, _ in tried
    ]
    ranked = Prediction(
        prediction, scores, {**chosen, **validation_metric(train.task), "grid": grid}, gates
    )
    multilabel = train.task == "multilabel"
    return PredictionsBySetting(
        ranked,
        [
            Setting(
                name_of(settings),
                scores if multilabel else prediction,
                settings,
                n_train=len(train.embeddings),
                n_val=len(val.embeddings),
            )
            for settings, (scores, prediction) in tried
        ],
    )


run = on_embeddings(run_knn_sweep)


def possible_ks(ks: list[int], n_train: int) -> tuple[list[int], list[str]]:
    """The values of k that train is large enough for, ascending, and a gate for each other one.

    Raises
    ------
    PermafrostError : train has fewer samples than the smallest k.
    """
    ks = sorted(ks)
    if ks[0] > n_train:
        raise PermafrostError(
            f"k = {ks[0]} neighbours of {n_train} train samples",
            where="knn_sweep: k",
            remedy=f"add a k from 1 to {n_train}",
        )
    return [k for k in ks if k <= n_train], [f"k_above_train:{k}" for k in ks if k > n_train]


def name_of(settings: dict) -> str:
    """A setting in words: ``k=20, cosine, T=0.07``."""
    words = f"k={settings['k']}, {settings['metric']}"
    heat = settings["temperature"]
    return words if heat is None else f"{words}, T={heat:g}"


def _answers(
    train: Features, val: Features, test: Features, ks, options: KnnSweepOptions, device: str
):
    """Yield settings, and scores and prediction on validation and on test."""
    queries = np.concatenate([val.embeddings, test.embeddings])
    cut, device = len(val.embeddings), resolve_device(device, "faiss")
    known = {"n_classes": len(train.classes), "task": train.task}
    for metric in options.metrics:
        found = neighbours(train.embeddings, queries, ks[-1], metric=metric, device=device)
        near = None
        for weights in options.weights:
            if weights == "temperature" and near is None:
                near = similarities(train.embeddings, queries, found)
            for k in ks:
                settings = {"k": k, "metric": metric, "weights": weights, "temperature": None}
                if weights == "uniform":
                    scores, answers = vote(found[:, :k], train.labels, **known)
                else:
                    settings["temperature"] = heat = options.temperature
                    scores, answers = weighted_vote(
                        found[:, :k], near[:, :k], train.labels, temperature=heat, **known
                    )
                yield settings, (scores[:cut], answers[:cut]), (scores[cut:], answers[cut:])
