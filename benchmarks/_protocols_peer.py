"""The same evaluations by torchgeo-bench and scikit-learn: ``python _protocols_peer.py FEATURES.npz``.

Runs in the peers' environment. Each evaluation is timed by itself, after all imports and a warm-up, so that
the peer pays for no start-up.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from _timing import cpu_seconds

GRID = 10.0 ** np.linspace(-6, 4, 40)
NEIGHBOURS = (1, 5, 10, 20, 50, 100, 200)
TEMPERATURE = 0.07
RESAMPLES = 200


def evaluations(data: dict) -> dict:
    """Name to a function without arguments, for every evaluation that is compared."""
    splits = [data[f"{axis}_{split}"] for split in ("train", "val", "test") for axis in "xy"]
    return {
        "knn": partial(_knn, splits),
        "linear": partial(_linear, splits),
        "intrinsic dimension": partial(_dimensions, data["x_train"]),
        "silhouette": partial(_silhouettes, data["x_train"], data["y_train"]),
        "few-shot": partial(_few_shot, data, splits),
        "knn-sweep": partial(_knn_sweep, splits),
    }


def _knn(splits):
    from torchgeo_bench.main import evaluate_knn

    train_x, train_y, _, _, test_x, test_y = splits
    return evaluate_knn(train_x, train_y, test_x, test_y, 0, RESAMPLES)[0]


def _linear(splits):
    from torchgeo_bench.main import evaluate_logistic

    return evaluate_logistic(*splits, list(GRID), 0, RESAMPLES, True, "cpu", temp_scale=False)[0]


def _dimensions(features):
    """By scikit-dimension: torchid, which torchgeo-bench calls, is a port of it that wants Python 3.13."""
    from skdim.id import MLE, TwoNN, lPCA

    return [float(kind().fit(features).dimension_) for kind in (lPCA, TwoNN, MLE)]


def _silhouettes(features, labels):
    from sklearn.metrics import silhouette_score
    from sklearn.preprocessing import normalize

    return [float(silhouette_score(x, labels)) for x in (features, normalize(features))]


def _few_shot(data, splits):
    """A sweep over C and a refit, and a choice of k, for each draw; mean test accuracy of each classifier."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

    train_x, train_y, val_x, val_y, test_x, test_y = splits
    found = {"linear": [], "knn": []}
    for number in range(int(data["draws"])):
        rows, val_rows = data[f"train_{number}"], data[f"val_{number}"]
        x, y, held_x, held_y = train_x[rows], train_y[rows], val_x[val_rows], val_y[val_rows]
        both_x, both_y = np.concatenate([x, held_x]), np.concatenate([y, held_y])
        makers = {
            "linear": [partial(LogisticRegression, C=c, max_iter=1000) for c in GRID],
            "knn": [partial(KNeighborsClassifier, k) for k in (1, 5, 10) if k <= len(x)],
        }
        for name, kinds in makers.items():
            scores = [kind().fit(x, y).score(held_x, held_y) for kind in kinds]
            best = kinds[int(np.argmax(scores))]
            last = best().fit(both_x, both_y) if name == "linear" else best().fit(x, y)
            found[name].append(last.score(test_x, test_y))
    return {name: float(np.mean(values)) for name, values in found.items()}


def _knn_sweep(splits):
    from sklearn.neighbors import KNeighborsClassifier

    train_x, train_y, val_x, val_y, test_x, test_y = splits
    scores = []
    for metric in ("euclidean", "cosine"):
        for k in NEIGHBOURS:
            for weights in ("uniform", _by_similarity if metric == "cosine" else _by_unit_distance):
                model = KNeighborsClassifier(k, metric=metric, weights=weights).fit(
                    train_x, train_y
                )
                scores.append([model.score(val_x, val_y), model.score(test_x, test_y)])
    return float(max(scores)[1])


def _by_similarity(distances):
    return np.exp((1 - distances) / TEMPERATURE)


def _by_unit_distance(distances):
    """A stand-in of the same cost: scikit-learn gives weights the distances alone, not the similarity."""
    return np.exp(-distances / distances.max())


def _warm_up() -> None:
    import skdim.id  # noqa: F401
    import torch
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from torchgeo_bench import linear, main  # noqa: F401

    torch.set_num_threads(1)
    # the first torch.optim.LBFGS of a process imports for seconds
    linear.LogisticRegression(max_iter=2).fit(torch.randn(50, 4), torch.arange(50) % 3)
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    LogisticRegression().fit(x, y)
    KNeighborsClassifier().fit(x, y).predict(x)


if __name__ == "__main__":
    with np.load(sys.argv[1]) as file:
        arrays = {name: file[name] for name in file.files}
    _warm_up()
    report: dict = {"start-up": time.process_time()}
    for name, evaluate in evaluations(arrays).items():
        seconds, value = cpu_seconds(evaluate)
        print(name, seconds, value, file=sys.stderr, flush=True)
        report[name] = {"cpu_s": seconds, "value": value}
    print(json.dumps(report))
