"""k nearest neighbours by exact search: FAISS finds candidates, float64 settles their order.

FAISS may compute ||x||^2 + ||y||^2 - 2 x.y in float32. On features with a large offset, or where
neighbours are much nearer than features are long, the digits that order the neighbours cancel.
So features are centred by train's mean (which moves no distance), more candidates than k are
fetched, their true distances are taken in float64, and a query whose candidates cannot be proved
to hold its k nearest is searched again with more of them.

Neighbours at equal distance are ordered by their index in train, the lowest first. So of rows that are
equal (black borders, collapsed features) only the first k can be among the k nearest: the others are
left out of the search.
"""

from __future__ import annotations

import numpy as np

from permafrost.core.device import faiss_sees_gpu
from permafrost.core.errors import PermafrostError, near_names
from permafrost.probes.knn.distances import DOUBLE, TrueDistances, unit

METRICS = ("l2", "cosine")
TASKS = ("classification", "multilabel")
SPARE = 16  # candidates beyond k in the first search
HELD = 1_000_000  # candidates, or values of features, held at a time
MOST_ON_GPU = 2048  # candidates per query that FAISS can fetch on a GPU
SINGLE = 2.0**-24  # half a unit in the last place of float32
LARGEST = float(np.finfo(np.float32).max)


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
    """(M, k) indices into train, nearest first, equal distances by ascending index.

    For many searches in the same training set see `NeighbourSearch`, which has the parameters, the
    memory and the errors.
    """
    return NeighbourSearch(train_x, k, metric=metric, device=device).find(test_x)


class NeighbourSearch:
    """The k nearest rows of one training set, for any number of queries.

    Memory: the index holds train in float32; for cosine there is a copy in float64, for l2 one too where
    queries are compared with more than a 24th of train at once (small train, or many rows at nearly the same
    distance), and where equal rows are left out, a copy of the others. Beside these and the result, a search
    takes at most 200 MB, whatever k, the number of queries and of ties: queries go in blocks of `HELD`
    candidates. A train set of more rows than that adds 60 bytes a row.

    Parameters
    ----------
    train_x : (N, d) features, taken as they are.
    k : number of neighbours, at most N.
    metric : "l2" or "cosine" (1 - cosine; a zero vector is at distance 1 from everything).
    device : "cpu", or "cuda" or "cuda:N" where FAISS was built for GPUs.

    Raises
    ------
    PermafrostError : k above N, NaN or infinite features, wrong shapes, unknown metric, no GPU for FAISS.
    """

    def __init__(self, train_x, k: int, *, metric: str = "l2", device: str = "cpu") -> None:
        if metric not in METRICS:
            raise PermafrostError(
                f"unknown metric {metric!r} for knn", remedy=near_names(metric, METRICS)
            )
        train = _features(train_x, "train")
        if not 1 <= k <= len(train):
            raise PermafrostError(
                f"k = {k} neighbours of {len(train)} train samples",
                where="knn: k",
                remedy=f"choose k from 1 to {len(train)}",
            )
        self.k, self.metric, self.device = k, metric, device
        # what is taken off before searching: for l2 train's mean, which moves no distance
        self.mean = 0.0 if metric == "cosine" else train.mean(axis=0, dtype=np.float64)
        if metric == "cosine":
            train = unit(train)
        self.kept = first_copies(train, k)
        self.train = train if len(self.kept) == len(train) else train[self.kept]
        self.true_distances = TrueDistances(self.train, metric)
        self.index, self.longest = self._index()

    def _index(self):
        """An exact FAISS index with all of train, and the length of the longest row in it."""
        import faiss

        kind = faiss.IndexFlatIP if self.metric == "cosine" else faiss.IndexFlatL2
        index, longest = _on_device(kind(self.train.shape[1]), self.device), 0.0
        for rows in _blocks(self.train):
            part = np.ascontiguousarray(self.train[rows] - self.mean, np.float32)
            index.add(part)
            longest = max(longest, np.einsum("ij,ij->i", part, part, dtype=np.float64).max())
        return index, np.sqrt(longest)

    def find(self, test_x) -> np.ndarray:
        """(M, k) indices into train of the nearest to (M, d) queries, equal distances by ascending index."""
        test = _features(test_x, "test")
        if self.train.shape[1] != test.shape[1]:
            raise PermafrostError(
                f"train has {self.train.shape[1]} dimensions, test has {test.shape[1]}",
                where="knn",
                remedy="extract both splits with the same backbone",
            )
        found = np.empty((len(test), self.k), dtype=np.int64)
        open_queries, count = np.arange(len(test)), min(len(self.train), self.k + SPARE)
        all_rows, too_many = count == len(self.train), self.device != "cpu" and count > MOST_ON_GPU
        candidates = self._by_product if all_rows or too_many else self._by_faiss
        while len(open_queries):
            step = max(1, HELD // max(count, test.shape[1]))
            unsure = []
            for start in range(0, len(open_queries), step):
                block = open_queries[start : start + step]
                found[block], sure = self._settle(test[block], candidates, count)
                unsure.append(block[~sure])
            open_queries = np.concatenate(unsure)
            if candidates == self._by_product:
                count = min(len(self.train), 4 * count)
            candidates = self._by_product
        return self.kept[found]

    def _settle(self, test, candidates, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(m, k) the nearest of `count` candidates, and (m,) bool whether they are surely those of all."""
        if self.metric == "cosine":
            test = unit(test)
        numbers, beyond = candidates(test, count)
        settled = self.true_distances.to(test, numbers)
        order = np.lexsort((numbers, settled), axis=1)[:, : self.k]
        kth = np.take_along_axis(settled, order[:, -1:], axis=1)[:, 0]
        return np.take_along_axis(numbers, order, axis=1), kth < beyond

    def _by_faiss(self, test: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(m, count) the nearest rows in float32, and (m,) a distance that no other row is below."""
        queries = (test - self.mean).astype(np.float32)
        reach, numbers = self.index.search(queries, count)
        beyond = (1.0 - reach[:, -1] if self.metric == "cosine" else reach[:, -1]).astype(
            np.float64
        )
        # the rounding of a sum of d terms grows as the square root of d
        rounding = self._rounding(queries, np.sqrt(test.shape[1] + 1.0) * SINGLE)
        return numbers, beyond - np.where(rounding < LARGEST * SINGLE, rounding, np.inf)

    def _by_product(self, test: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The same in float64, train block by block."""
        if count == len(self.train):
            everything = np.broadcast_to(np.arange(count), (len(test), count))
            return everything, np.full(len(test), np.inf)
        queries = test - self.mean
        nearest, numbers = np.empty((len(test), 0)), np.empty((len(test), 0), np.int64)
        for rows in _blocks(self.train, at_least=len(test)):
            part = self.train[rows] - self.mean
            gaps = -2.0 * (queries @ part.T)
            if self.metric == "l2":  # without the query's own square, which orders nothing
                gaps += np.einsum("ij,ij->i", part, part)
            nearest = np.concatenate([nearest, gaps], axis=1)
            added = np.arange(rows.start, rows.start + len(part))
            numbers = np.concatenate([numbers, np.broadcast_to(added, gaps.shape)], axis=1)
            if nearest.shape[1] > count:
                first = np.argpartition(nearest, count - 1, axis=1)[:, :count]
                nearest = np.take_along_axis(nearest, first, axis=1)
                numbers = np.take_along_axis(numbers, first, axis=1)
        beyond = nearest.max(axis=1)
        if self.metric == "cosine":
            beyond = 1.0 + beyond / 2.0
        else:
            beyond += np.einsum("ij,ij->i", queries, queries)
        return numbers, beyond - self._rounding(queries, (test.shape[1] + 4.0) * DOUBLE)

    def _rounding(self, queries: np.ndarray, terms: float) -> np.ndarray:
        """(m,) how far a distance by products can be off, where each product is by `terms`."""
        if self.metric == "cosine":
            return np.full(len(queries), 4.0 * terms)
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        return 4.0 * terms * (self.longest + lengths) ** 2


def first_copies(rows: np.ndarray, most: int) -> np.ndarray:
    """Ascending numbers of (N, d) rows; of rows that are equal the first `most`."""
    weights = np.random.default_rng(0).integers(0, 2**63, rows.shape[1], np.uint64) | np.uint64(1)
    keys = np.empty(len(rows), np.uint64)
    for block in _blocks(rows):
        bits = (rows[block] + 0.0).astype(np.float64).view(np.uint64)  # + 0.0: -0.0 equals 0.0
        keys[block] = (bits ^ (bits >> np.uint64(32))) @ weights
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=~keys[order[:1]]))
    sizes = np.diff(starts, append=len(rows))
    kept = np.ones(len(rows), bool)
    for start, size in zip(starts[sizes > most], sizes[sizes > most], strict=True):
        same = order[start : start + size]
        # equal keys are hardly ever those of other rows; where they are, all are kept
        if all((rows[same[part]] == rows[same[0]]).all() for part in _blocks(rows[:size])):
            kept[same[most:]] = False
    return np.flatnonzero(kept)


def _blocks(rows: np.ndarray, at_least: int = 1):
    """Slices of rows, of at most `HELD` values each; `at_least` is the number of values beside a row."""
    step = max(1, HELD // max(rows.shape[1], at_least))
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _on_device(index, device: str):
    """The same FAISS index, on a GPU unless `device` is cpu."""
    import faiss

    if device == "cpu":
        return index
    number = int(device.partition(":")[2] or 0)
    if not faiss_sees_gpu() or number >= faiss.get_num_gpus():
        raise PermafrostError(
            "FAISS finds no such GPU, or was built without GPU support",
            where=f"knn: device {device}",
            remedy="use device: auto or cpu, or install the CUDA environment",
        )
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)


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
