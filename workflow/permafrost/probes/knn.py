"""k nearest neighbours by exact search: FAISS finds candidates, float64 settles their order.

FAISS may compute ||x||^2 + ||y||^2 - 2 x.y in float32. On features with a large offset, or where
neighbours are much nearer than features are long, the digits that order the neighbours cancel.
So features are centred by train's mean (which moves no distance), more candidates than k are
fetched, their true distances are taken in float64, and a query whose candidates cannot be proved
to hold its k nearest is searched again with more of them.

Neighbours at equal distance are ordered by their index in train, the lowest first.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.errors import PermafrostError, near_names

from .knn_distances import distances, unit

METRICS = ("l2", "cosine")
TASKS = ("classification", "multilabel")
SPARE = 16  # candidates beyond k in the first search
SINGLE = 2.0**-24  # half a unit in the last place of float32


def knn_predict(
    train_x, train_y, test_x, *, k: int, metric: str, n_classes: int, task: str, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Predict by unweighted vote of the k nearest train samples.

    Parameters
    ----------
    train_x, test_x : (N, d), (M, d) features, taken as they are.
    train_y : (N,) class ids, or (N, n_classes) of 0 and 1.
    k : number of neighbours, at most N.
    metric : "l2" or "cosine" (1 - cosine; a zero vector is at distance 1 from everything).
    task : "classification" or "multilabel".
    device : "cpu", or "cuda" where FAISS was built for GPUs.

    Returns
    -------
    scores : (M, n_classes) float32, the share of neighbours with each class or label.
    prediction : (M,) int64, the class with most votes (lowest id of equals); or (M, n_classes)
        uint8, the labels of more than half of the neighbours.

    Raises
    ------
    PermafrostError : k above N, NaN or infinite features, wrong shapes, unknown options.
    """
    train_y = _labels(train_y, len(train_x), n_classes, task)
    found = neighbours(train_x, test_x, k, metric=metric, device=device)
    return vote(found, train_y, n_classes=n_classes, task=task)


def vote(found: np.ndarray, train_y, *, n_classes: int, task: str):
    """Scores and prediction from (M, k) indices of neighbours; see `knn_predict`.

    The first columns of a search for a larger k are the search for a smaller one.
    """
    if task == "multilabel":
        scores = np.asarray(train_y)[found].mean(axis=1, dtype=np.float64).astype(np.float32)
        return scores, (scores > 0.5).astype(np.uint8)
    queries, k = found.shape
    cells = np.arange(queries)[:, None] * n_classes + np.asarray(train_y)[found]
    votes = np.bincount(cells.reshape(-1), minlength=queries * n_classes)
    votes = votes.reshape(queries, n_classes)
    return (votes / k).astype(np.float32), votes.argmax(axis=1)


def neighbours(train_x, test_x, k: int, *, metric: str = "l2", device: str = "cpu") -> np.ndarray:
    """(M, k) indices into train, nearest first, equal distances by ascending index."""
    if metric not in METRICS:
        raise PermafrostError(
            f"unknown metric {metric!r} for knn", remedy=near_names(metric, METRICS)
        )
    train, test = _features(train_x, "train"), _features(test_x, "test")
    if train.shape[1] != test.shape[1]:
        raise PermafrostError(
            f"train has {train.shape[1]} dimensions, test has {test.shape[1]}",
            where="knn",
            remedy="extract both splits with the same backbone",
        )
    if not 1 <= k <= len(train):
        raise PermafrostError(
            f"k = {k} neighbours of {len(train)} train samples",
            where="knn: k",
            remedy=f"choose k from 1 to {len(train)}",
        )
    if metric == "cosine":
        train, test = unit(train), unit(test)
        search_train, search_test = train.astype(np.float32), test.astype(np.float32)
    else:
        mean = train.mean(axis=0, dtype=np.float64)
        search_train = (train - mean).astype(np.float32)
        search_test = (test - mean).astype(np.float32)
    index = _index(search_train, metric, device)
    slack = _rounding(search_train, search_test, metric)
    found = np.empty((len(test), k), dtype=np.int64)
    open_queries, count = np.arange(len(test)), min(len(train), k + SPARE)
    while len(open_queries):
        reach, candidates = index.search(search_test[open_queries], count)
        settled = distances(train, test[open_queries], candidates, metric)
        order = np.lexsort((candidates, settled), axis=1)[:, :k]
        found[open_queries] = np.take_along_axis(candidates, order, axis=1)
        kth = np.take_along_axis(settled, order[:, -1:], axis=1)[:, 0]
        # everything that was not fetched is at least as far as the last candidate, by FAISS
        beyond = (1.0 - reach[:, -1] if metric == "cosine" else reach[:, -1]).astype(np.float64)
        unsure = kth >= beyond - slack[open_queries]
        if count == len(train):
            break
        open_queries, count = open_queries[unsure], min(len(train), 4 * count)
    return found


def _rounding(train: np.ndarray, test: np.ndarray, metric: str) -> np.ndarray:
    """(M,) how far FAISS's float32 distances can be off: rounding grows as the square root of d."""
    unit = 4.0 * np.sqrt(train.shape[1] + 1.0) * SINGLE
    if metric == "cosine":
        return np.full(len(test), unit)
    longest = np.sqrt(np.einsum("ij,ij->i", train, train, dtype=np.float64).max())
    lengths = np.sqrt(np.einsum("ij,ij->i", test, test, dtype=np.float64))
    return unit * (longest + lengths) ** 2


def _index(train: np.ndarray, metric: str, device: str):
    """An exact FAISS index over ``train``."""
    import faiss

    kind = faiss.IndexFlatIP if metric == "cosine" else faiss.IndexFlatL2
    index = kind(train.shape[1])
    if device != "cpu":
        if not hasattr(faiss, "StandardGpuResources") or faiss.get_num_gpus() == 0:
            raise PermafrostError(
                "FAISS finds no GPU or was built without GPU support",
                where=f"knn: device {device}",
                remedy="use device cpu, or install faiss with GPU support",
            )
        number = int(device.partition(":")[2] or 0)
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
    index.add(np.ascontiguousarray(train))
    return index


def _features(features, split: str) -> np.ndarray:
    features = np.asarray(features)
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "fiu":
        raise PermafrostError(
            f"need numbers of shape (samples, dimensions), got {features.dtype} {features.shape}",
            where=f"knn, {split} features",
            remedy="pool the embeddings to one vector per sample and keep every split non-empty",
        )
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(bad):
        raise PermafrostError(
            f"{len(bad)} of {len(features)} rows hold NaN or infinity, first row {bad[0]}",
            where=f"knn, {split} features",
            remedy="check the backbone's weights, its input normalisation and its precision",
        )
    return features


def _labels(labels, rows: int, n_classes: int, task: str) -> np.ndarray:
    if task not in TASKS:
        raise PermafrostError(f"unknown task {task!r} for knn", remedy=near_names(task, TASKS))
    labels = np.asarray(labels)
    expected = (rows,) if task == "classification" else (rows, n_classes)
    top = n_classes - 1 if task == "classification" else 1
    if labels.shape != expected:
        raise PermafrostError(
            f"train labels have shape {labels.shape}, expected {expected} for task {task}",
            where="knn",
            remedy="give one label row per feature row",
        )
    if labels.size and (labels.min() < 0 or labels.max() > top):
        raise PermafrostError(
            f"train labels have values outside 0..{top}",
            where="knn",
            remedy="use the card's class ids",
        )
    return labels.astype(np.int64)
