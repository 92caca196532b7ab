"""Nearest neighbours with many settings: every k, metric and weighting from one search per metric.

The weight of a neighbour is exp(s / T), with s its cosine similarity to the query, also if neighbours were
found by L2: one temperature fits cosines, but not distances, whose scale varies.
Source: Wu et al., Unsupervised Feature Learning via Non-Parametric Instance Discrimination (2018);
T = 0.07 as in the evaluations of DINO.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from permafrost.core.device import resolve_device
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Above0, Different, Options, Positive
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import score_on_validation
from permafrost.probes.embeddings.features import Features, class_gates, on_embeddings
from permafrost.probes.embeddings.predictions import Prediction
from permafrost.probes.embeddings.settings import PredictionsBySetting, Setting
from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn.distances import unit
from permafrost.probes.knn.search import NeighbourSearch, neighbours, vote
from permafrost.probes.knn.ties import tie_gates
from permafrost.probes.knn.train_rows import TrainRows, in_steps
from permafrost.probes.options import Metric

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

    # settings, and scores and prediction on validation and on test
    type _Scored = tuple[np.ndarray, np.ndarray]
    type _Answer = tuple[dict, _Scored, _Scored]


def similarities(train_x, test_x, found: np.ndarray) -> np.ndarray:
    """(M, k) float64 cosine similarities of queries to their neighbours `found`; 0 for a zero vector."""
    return _similarities(TrainRows(train_x, "cosine"), test_x, found)


def _similarities(train: TrainRows, test_x, found: np.ndarray) -> np.ndarray:
    near = np.empty(found.shape)
    for rows in in_steps(len(found), train.at_once(found.shape[1])):
        near[rows] = 1.0 - train.distances(unit(test_x[rows]), found[rows])
    return near


def weighted_vote(
    found: np.ndarray,
    similarity: np.ndarray,
    train_y,
    *,
    temperature: float,
    n_classes: int,
    task: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and prediction from (M, k) neighbours with weights exp(similarity / temperature).

    Returns
    -------
    scores : (M, n_classes) float32, the share of the weight with each class or label.
    prediction : (M,) int64, the class with the highest score, the lowest id of those equal
        in float32; or (M, n_classes) uint8, the labels with more than half of the weight.
    """
    labels, each, targets = np.asarray(train_y), found.shape[1], cast("Labels", targets_of(task))
    scores = np.empty((len(found), n_classes), np.float32)
    for rows in in_steps(len(found), blocks.HELD // max(each * labels[:1].size, n_classes)):
        # only ratios matter: with a largest weight of 1, nothing overflows for any T
        near = similarity[rows]
        weights = np.exp((near - near.max(axis=1, keepdims=True)) / temperature)
        weights /= weights.sum(axis=1, keepdims=True)
        voted = labels[found[rows]]
        if targets.several:
            scores[rows] = np.einsum("mk,mkl->ml", weights, voted)
            continue
        cells = np.arange(len(voted))[:, None] * n_classes + voted
        total = np.bincount(cells.ravel(), weights.ravel(), minlength=len(voted) * n_classes)
        # float32 removes rounding errors of the summation order, so that equal votes are equal
        scores[rows] = total.reshape(len(voted), n_classes)
    return scores, targets.answers(scores)


@dataclass(frozen=True, kw_only=True)
class KnnSweepOptions(Options):
    """Nearest neighbours with every combination of the settings, from one search per metric. All are
    scored; the best on validation is ranked and compared.
    """

    k: Different[Positive] = field(default_factory=lambda: [1, 5, 10, 20, 50, 100, 200])
    """Numbers of neighbours; those above the number of training samples are omitted, with a warning."""
    metrics: Different[Metric] = field(default_factory=lambda: ["l2", "cosine"])
    """Distances between embeddings."""
    weights: Different[Literal["uniform", "temperature"]] = field(
        default_factory=lambda: ["uniform", "temperature"]
    )
    """Weights of neighbours: 1, or exp(cosine similarity / temperature)."""
    temperature: Above0 = 0.07
    """Temperature of the weights `temperature`."""


def run_knn_sweep(
    splits: dict[str, Features], options: KnnSweepOptions, *, device: str, seed: int
) -> PredictionsBySetting:
    """Score the test split with every setting; the best on validation is ranked.

    Neighbours are always from train: nothing is fitted to which validation could be
    added. Ties on validation go to the first setting: metrics and weightings in
    the order of the options, and the smallest k.
    """
    train, val, test = (splits[name] for name in ("train", "val", "test"))
    ks, gates = possible_ks(options.k, len(train.embeddings))
    tried, best = [], None
    for settings, on_val, on_test in _answers(train, val, test, ks, options, device):
        value = score_on_validation(val.labels, *on_val, train.task)
        settings["val_score"], (scores, prediction) = value, on_test
        # only the best setting's class scores are kept
        tried.append((settings, train.targets.scored(scores, prediction)))
        if best is None or value > best[0]["val_score"]:
            best = settings, Prediction(prediction, scores)
    chosen, answer = best
    gates += class_gates(train.labels, train.task, len(train.classes))
    gates += _tie_gates(train, test, chosen, resolve_device(device, "faiss"))
    if len(ks) > 1 and chosen["k"] == ks[-1]:
        gates.append("best_k_on_edge")
    grid = [
        {"setting": name_of(settings), "val_score": settings["val_score"]} for settings, _ in tried
    ]
    ranked = replace(
        answer,
        settings={**chosen, "val_metric": cast("Labels", train.targets).validation, "grid": grid},
        gates=gates,
    )
    return PredictionsBySetting(
        ranked,
        [
            Setting(
                name_of(settings),
                answer,
                settings,
                n_train=len(train.embeddings),
                n_val=len(val.embeddings),
            )
            for settings, answer in tried
        ],
    )


run = on_embeddings(run_knn_sweep, streams=True)


def _tie_gates(train: Features, test: Features, chosen: dict, device: str) -> list[str]:
    """Warning about test predictions of the chosen setting that ties decided; see `ties`."""
    if not len(test.embeddings):
        return []
    known: dict[str, Any] = {"n_classes": len(train.classes), "task": train.task}
    rows, k, heat = (train.embeddings, test.embeddings), chosen["k"], chosen["temperature"]
    where = {"metric": chosen["metric"], "device": device}
    found = neighbours(*rows, k + (k < len(train.embeddings)), **where)

    def answer(near: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if heat is None:
            return vote(near, train.labels, **known)
        weight = similarities(train.embeddings, test.embeddings[some], near)
        return weighted_vote(near, weight, train.labels, temperature=heat, **known)

    return tie_gates(*rows, found, answer, k=k, **where)


def possible_ks(ks: list[int], n_train: int) -> tuple[list[int], list[str]]:
    """The values of k up to the size of train, ascending, and a warning for each larger one.

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
) -> Iterator[_Answer]:
    """Yield settings, and scores and prediction on validation and on test."""
    known: dict[str, Any] = {"n_classes": len(train.classes), "task": train.task}
    device, cosines = resolve_device(device, "faiss"), None
    asked = (val.embeddings, test.embeddings)
    for metric in options.metrics:
        search = NeighbourSearch(train.embeddings, ks[-1], metric=metric, device=device)
        nobody = np.empty((0, ks[-1]), np.int64)
        found = [search.find(rows) if len(rows) else nobody for rows in asked]
        near = None
        del search  # its index
        for weights in options.weights:
            if weights == "temperature" and near is None:
                cosines = cosines or TrainRows(train.embeddings, "cosine")
                near = [_similarities(cosines, *each) for each in zip(asked, found, strict=True)]
            for k in ks:
                settings = {"k": k, "metric": metric, "weights": weights, "temperature": None}
                if weights == "uniform":
                    answers = [vote(one[:, :k], train.labels, **known) for one in found]
                else:
                    settings["temperature"] = options.temperature
                    answers = [
                        weighted_vote(
                            one[:, :k],
                            weight[:, :k],
                            train.labels,
                            temperature=options.temperature,
                            **known,
                        )
                        for one, weight in zip(found, near, strict=True)
                    ]
                yield cast("_Answer", (settings, *answers))
