"""k nearest neighbours by exact search: FAISS finds candidates, float64 distances define their order.

FAISS may compute ||x||^2 + ||y||^2 - 2 x.y in float32. For features with a large offset, or
neighbours much closer than the length of features, the significant digits cancel.
So features are centred by train's mean (which changes no distance), and more candidates than k are
fetched. Distances of candidates that float32 cannot order are computed in float64, and a query whose
candidates may lack one of its k nearest is searched again in float64.

Neighbours at equal distance are ordered by their index in train, the lowest first. So of equal
rows (black borders, collapsed features) only the first k can be among the k nearest: the others are
excluded from the search.

FAISS searches a large train set block by block, and the nearest so far of each query are kept. Then train is
read once more, in order, for the float64 distances of the candidates of many queries.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np

from permafrost.core.blas import numpys_kernels
from permafrost.core.device import faiss_sees_gpu
from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.joined_rows import JoinedRows
from permafrost.core.row_file import RowFile
from permafrost.core.tasks import targets_of
from permafrost.probes.embeddings.arithmetic import check_labels
from permafrost.probes.knn import rows as blocks
from permafrost.probes.knn import train_rows
from permafrost.probes.knn.distances import unit
from permafrost.probes.knn.exact import ExactNeighbours
from permafrost.probes.knn.rows import first_copies, mean_of, value_blocks
from permafrost.probes.knn.train_rows import TrainRows, in_steps

if TYPE_CHECKING:
    from permafrost.core.targets import Labels

METRICS = ("l2", "cosine")
SPARE = 16  # candidates beyond k in the first search
IN_DOUBT = 6  # candidates of a query, fewer than SPARE, that are ordered apart from the others
MOST_ON_GPU = 2048  # candidates per query that FAISS can fetch on a GPU
SINGLE = 2.0**-24  # half a unit in the last place of float32
LARGEST = float(np.finfo(np.float32).max)
#: bytes of an array's indexes that are kept for the next queries, which may be few
KEPT_BYTES = 512 * 2**20


def knn_predict(
    train_x, train_y, test_x, *, k: int, metric: str, n_classes: int, task: str, device: str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """Predict by unweighted vote of the k nearest train samples.

    Parameters
    ----------
    train_x, test_x : (N, d), (M, d) features, not scaled.
    train_y : (N,) class ids, or (N, n_classes) of 0 and 1.
    k : number of neighbours, at most N.
    metric : "l2" or "cosine" (1 - cosine; a zero vector is at distance 1 from all others).
    task : "classification" or "multilabel".
    device : "cpu", or "cuda" if FAISS was built for GPUs.

    Returns
    -------
    scores : (M, n_classes) float32, the share of neighbours with each class or label.
    prediction : (M,) int64, the class with most votes (lowest id of equals); or (M, n_classes)
        uint8, the labels of more than half of the neighbours.

    Raises
    ------
    PermafrostError : k above N, NaN or infinite features, wrong shapes, unknown options.
    """
    train_y = check_labels(train_y, len(train_x), n_classes, task, "knn, train")
    found = neighbours(train_x, test_x, k, metric=metric, device=device)
    return vote(found, train_y, n_classes=n_classes, task=task)


def vote(found: np.ndarray, train_y, *, n_classes: int, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores and prediction from (M, k) indices of neighbours; see `knn_predict`.

    The first columns of the result for a larger k are the result for a smaller one.
    """
    labels, each, targets = np.asarray(train_y), found.shape[1], cast("Labels", targets_of(task))
    scores = np.empty((len(found), n_classes), np.float32)
    prediction = np.empty(targets.shape(len(found), n_classes), targets.stored)
    for rows in in_steps(
        len(found), blocks.HELD // max(1, each * (labels[:1].size or 1), n_classes)
    ):
        if targets.several:
            scores[rows] = labels[found[rows]].mean(axis=1, dtype=np.float64)
            prediction[rows] = targets.answers(scores[rows])
            continue
        cells = np.arange(len(found[rows]))[:, None] * n_classes + labels[found[rows]]
        votes = np.bincount(cells.reshape(-1), minlength=len(cells) * n_classes)
        votes = votes.reshape(-1, n_classes)
        scores[rows], prediction[rows] = votes / each, votes.argmax(axis=1)
    return scores, prediction


def mean_vote(found: np.ndarray, train_y: np.ndarray) -> np.ndarray:
    """(M, …) float64 mean of the targets (N, …) of (M, k) neighbours."""
    means = np.empty((len(found), *train_y.shape[1:]))
    each = found.shape[1] * (train_y[:1].size or 1)
    for rows in in_steps(len(found), max(1, blocks.HELD // each)):
        means[rows] = train_y[found[rows]].mean(axis=1)
    return means


def neighbours(train_x, test_x, k: int, *, metric: str = "l2", device: str = "cpu") -> np.ndarray:
    """(M, k) indices into train, nearest first, equal distances by ascending index.

    For many searches in the same training set use `NeighbourSearch`, which documents parameters,
    memory and errors.
    """
    return NeighbourSearch(train_x, k, metric=metric, device=device).find(test_x)


class NeighbourSearch:
    """The k nearest rows of one training set, for any number of queries.

    Memory besides train, queries and the result is bounded for any k and number of rows, queries and ties. A
    train set of at most 128 MB in float32 is small: it has an index, a copy without equal rows if there are
    any, and a float64 copy for cosine, or if queries are compared with more than a 24th of train at once. A
    larger one has an index of 128 MB at a time (an array keeps up to `KEPT_BYTES` of them) plus 256 MB of queries and
    candidates. Work on blocks takes up to 200 MB more, and finding equal rows up to 60 bytes per row of train.

    Parameters
    ----------
    train_x : (N, d) features, not scaled; an array or a `RowFile`.
    k : number of neighbours, at most N.
    metric : "l2" or "cosine" (1 - cosine; a zero vector is at distance 1 from all others).
    device : "cpu", or "cuda" or "cuda:N" if FAISS was built for GPUs.

    Raises
    ------
    PermafrostError : k above N, NaN or infinite features, wrong shapes, unknown metric, no GPU for FAISS.
    """

    def __init__(self, train_x, k: int, *, metric: str = "l2", device: str = "cpu") -> None:
        look_up(METRICS, metric, "knn has no metric")
        source = _features(train_x, "train")
        if not 1 <= k <= len(source):
            raise PermafrostError(
                f"k = {k} neighbours of {len(source)} train samples",
                where="knn: k",
                remedy=f"choose k from 1 to {len(source)}",
            )
        self.source, self.k, self.metric, self.device = source, k, metric, device
        # subtracted before searching: for l2 train's mean, which changes no distance
        self.mean = 0.0 if metric == "cosine" else mean_of(source)
        self.known = TrainRows(source, metric)
        self.known.leave_out(first_copies(self.known.rows, k))
        self.train, self.small = self.known.rows, self.known.small
        self.exact = ExactNeighbours(self.train, self.mean, k, metric)
        self._kept_indexes: list[tuple] | None = None
        self._empty = self._new_index()  # fails early if there is no such GPU

    def find(self, test_x) -> np.ndarray:
        """(M, k) indices of the train rows nearest to (M, d) queries, equal distances by ascending index."""
        test = _features(test_x, "test")
        if self.train.shape[1] != test.shape[1]:
            raise PermafrostError(
                f"train has {self.train.shape[1]} dimensions, test has {test.shape[1]}",
                where="knn",
                remedy="extract both splits with the same backbone",
            )
        found = np.empty((len(test), self.k), dtype=np.int64)
        count = min(len(self.train), self.k + SPARE)
        all_rows, too_many = count == len(self.train), self.device != "cpu" and count > MOST_ON_GPU
        if (all_rows and not self.small) or too_many:
            unsure, reach = np.arange(len(test)), np.full(len(test), np.inf)
        else:
            parts = []
            for rows in in_steps(len(test), self.known.at_once(count)):
                found[rows], sure, reach = self._settled(self._asked(test[rows]), count)
                parts.append((rows.start + np.flatnonzero(~sure), reach[~sure]))
            unsure, reach = (np.concatenate(part) for part in zip(*parts, strict=True))
        each = self.exact.bytes_each(test.shape[1], self.k)
        for some in in_steps(len(unsure), train_rows.QUERY_BYTES // each):
            found[unsure[some]] = self.exact.find(self._asked(test[unsure[some]]), reach[some])
        return self.known.numbers(found)

    def _asked(self, queries: np.ndarray) -> np.ndarray:
        return unit(queries) if self.metric == "cosine" else queries

    def _settled(self, queries, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k nearest of `count` candidates.

        Returns
        -------
        nearest : (m, k) rows of `train`.
        sure : (m,) bool: they are certainly the nearest of all rows.
        reach : (m,) a distance within which at least k rows are; infinite if unknown.
        """
        found = np.empty((len(queries), self.k), np.int64)
        sure, reach = np.ones(len(queries), bool), np.full(len(queries), np.inf)
        if count == len(self.train):
            numbers = np.broadcast_to(np.arange(count), (len(queries), count))
            left, beyond = np.arange(len(queries)), np.full(len(queries), np.inf)
        else:
            numbers, single, slack = self._candidates(queries, count)
            left = self._order(queries, numbers, single, slack, found)
            # FAISS finds fewer than `count` candidates if distances overflow: then nothing is known
            beyond = np.full(len(left), -np.inf)
            known = slack[left] < np.inf
            beyond[known] = single[left[known], -1] - slack[left[known]]
            if self.metric == "cosine":
                beyond += 1.0
        if len(left):
            numbers = numbers[left]
            settled = self.known.distances(queries[left], numbers)
            order = np.lexsort((numbers, settled), axis=1)[:, : self.k]
            found[left] = np.take_along_axis(numbers, order, axis=1)
            kth = np.take_along_axis(settled, order[:, -1:], axis=1)[:, 0]
            sure[left], reach[left] = kth < beyond, np.where(beyond == -np.inf, np.inf, kth)
        return found, sure, reach

    def _order(self, queries, numbers, single, slack, found: np.ndarray) -> np.ndarray:
        """Write the k nearest where float32, and float64 distances of a few candidates, prove them.

        Two candidates are in doubt if their distances in float32 differ by at most twice the error of one. A run of
        them ends where the next one is certainly farther. Only the runs that reach into the first k must be ordered.

        Parameters
        ----------
        numbers, single, slack : of `_candidates`.
        found : (m, k), to write into.

        Returns
        -------
        left : ascending queries that remain, of which more than `IN_DOUBT` candidates are in doubt.
        """
        step = max(1, blocks.HELD // numbers.shape[1])
        left = []
        for some in in_steps(len(queries), step):
            with np.errstate(invalid="ignore"):
                # infinite distances have no difference, and are in doubt
                close = ~(np.diff(single[some], axis=1) > 2.0 * slack[some, None])
            places = np.arange(numbers.shape[1])
            to_last, to_next = (np.pad(close, ((0, 0), ends)) for ends in ((1, 0), (0, 1)))
            begins = np.maximum.accumulate(np.where(to_last, 0, places), 1)
            run = to_last | to_next
            run &= begins < self.k
            # also where a run reaches the last candidate: it is longer than SPARE
            many = run.sum(axis=1) > IN_DOUBT
            left.append(some.start + np.flatnonzero(many))
            found[some] = numbers[some, : self.k]
            few = np.flatnonzero(run.any(axis=1) & ~many)
            if not len(few):
                continue
            # those in doubt first; if they are fewer than `IN_DOUBT`, others fill the array
            asked = np.argsort(~run[few], axis=1, kind="stable")[:, :IN_DOUBT]
            own, settled = numbers[some][few], np.zeros((len(few), numbers.shape[1]))
            exact = self.known.distances(queries[some][few], np.take_along_axis(own, asked, axis=1))
            np.put_along_axis(settled, asked, exact, axis=1)
            order = np.lexsort((own, settled, begins[few]), axis=1)[:, : self.k]
            found[some.start + few] = np.take_along_axis(own, order, axis=1)
        return np.concatenate(left)

    def _candidates(
        self, queries: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nearest rows in float32.

        Returns
        -------
        numbers : (m, count) rows, the nearest first.
        single : (m, count) their float32 distances, of cosine negative similarities.
        slack : (m,) a bound of the error of a distance, of these and of all other rows; infinite for queries with
            fewer than `count` finite distances.
        """
        width, step = self.train.shape[1], max(1, blocks.HELD // max(count, self.train.shape[1]))
        single = np.empty((len(queries), width), np.float32)
        for some in in_steps(len(queries), step):
            single[some] = queries[some] - self.mean
        nearest = np.empty((len(queries), count), np.float32)
        numbers, longest = np.empty(nearest.shape, np.int64), 0.0
        for index, rows, length in self._indexes():
            longest, known = max(longest, length), min(count, rows.start)
            for some in in_steps(len(queries), step):
                found = self._searched(index, rows, single[some], count)
                _merge(nearest[some], numbers[some], known, *found)
        for some in in_steps(len(queries), step):
            order = np.argsort(nearest[some], axis=1)
            nearest[some] = np.take_along_axis(nearest[some], order, axis=1)
            numbers[some] = np.take_along_axis(numbers[some], order, axis=1)
        # the rounding error of a sum of d terms grows with the square root of d
        rounding = self._rounding(single, np.sqrt(width + 1.0) * SINGLE, longest)
        known = np.isfinite(nearest[:, -1]) & (rounding < LARGEST * SINGLE)
        return numbers, nearest, np.where(known, rounding, np.inf)

    def _searched(self, index, rows: slice, queries, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances, or negative similarities, of the nearest rows in an index; infinite for missing ones."""
        nearest, numbers = index.search(queries, min(count, rows.stop - rows.start))
        if self.metric == "cosine":
            np.negative(nearest, out=nearest)
        missing = numbers < 0
        numbers += rows.start
        if missing.any():
            nearest[missing], numbers[missing] = np.inf, 0
        return nearest, numbers

    def _indexes(self) -> Iterator[tuple]:
        """Exact FAISS indexes of blocks of train: (index, slice of rows in it, length of the longest of them)."""
        if self._kept_indexes is not None:
            yield from self._kept_indexes
            return
        size = 4 * self.train.shape[1] * len(self.train)
        may_keep = isinstance(self.source, np.ndarray) and self.device == "cpu"
        keep = size <= (KEPT_BYTES if may_keep else train_rows.INDEX_BYTES)
        made: list[tuple]
        made, index = [], self._empty
        for rows in in_steps(len(self.train), train_rows.INDEX_BYTES // (4 * self.train.shape[1])):
            if made:
                index = self._new_index()
            elif rows.start:
                index.reset()
            longest = self._fill(index, rows)
            if keep:
                made.append((index, rows, longest))
            yield index, rows, longest
        if keep:
            self._kept_indexes = made
        else:
            index.reset()

    def _new_index(self):
        with numpys_kernels():
            import faiss

        kind = faiss.IndexFlatIP if self.metric == "cosine" else faiss.IndexFlatL2
        return _on_device(kind(self.train.shape[1]), self.device)

    def _fill(self, index, rows: slice) -> float:
        longest = 0.0
        step = max(1, blocks.HELD // self.train.shape[1])
        for start in range(rows.start, rows.stop, step):
            some = self.train[start : min(start + step, rows.stop)]
            part = np.ascontiguousarray(some - self.mean, np.float32)
            index.add(part)
            longest = max(longest, np.einsum("ij,ij->i", part, part, dtype=np.float64).max())
        return float(np.sqrt(longest))

    def _rounding(self, queries: np.ndarray, terms: float, longest: float) -> np.ndarray:
        """(m,) bound of the error of a distance by products with the relative error `terms`."""
        if self.metric == "cosine":
            return np.full(len(queries), 4.0 * terms)
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        return 4.0 * terms * (longest + lengths) ** 2


def _merge(nearest, numbers, known: int, more_nearest, more_numbers) -> None:
    """Merge in place the first `known` columns of (m, count) distances and rows with more candidates."""
    count = nearest.shape[1]
    if known:
        more_nearest = np.concatenate([nearest[:, :known], more_nearest], axis=1)
        more_numbers = np.concatenate([numbers[:, :known], more_numbers], axis=1)
    if more_nearest.shape[1] > count:
        first = np.argpartition(more_nearest, count - 1, axis=1)[:, :count]
        more_nearest = np.take_along_axis(more_nearest, first, axis=1)
        more_numbers = np.take_along_axis(more_numbers, first, axis=1)
    nearest[:, : more_nearest.shape[1]] = more_nearest
    numbers[:, : more_numbers.shape[1]] = more_numbers


def _on_device(index, device: str):
    """The FAISS index, moved to the GPU unless `device` is cpu."""
    import faiss

    if device == "cpu":
        return index
    number = int(device.partition(":")[2] or 0)
    if not faiss_sees_gpu(number):
        raise PermafrostError(
            "FAISS cannot compute on this GPU: there is none, or its build has no code for it",
            where=f"knn: device {device}",
            remedy="use device: auto or cpu, or install a FAISS that is built for this GPU",
        )
    return faiss.index_cpu_to_gpu(_gpu_resources(), number, index)


@functools.cache
def _gpu_resources():
    """FAISS's streams and temporary memory of GPUs, which all indexes of a process share."""
    import faiss

    return faiss.StandardGpuResources()


def _features(features, split: str):
    """Check and return the features."""
    features = features if isinstance(features, (RowFile, JoinedRows)) else np.asarray(features)
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "fiu":
        raise PermafrostError(
            f"need numbers of shape (samples, dimensions), got {features.dtype} {features.shape}",
            where=f"knn, {split} features",
            remedy="pool the embeddings to one vector per sample and keep every split non-empty",
        )
    bad, first = 0, None
    for rows in value_blocks(features):
        wrong = np.flatnonzero(~np.isfinite(features[rows]).all(axis=1))
        if len(wrong):
            first = rows.start + wrong[0] if first is None else first
            bad += len(wrong)
    if bad:
        raise PermafrostError(
            f"{bad} of {len(features)} rows hold NaN or infinity, first row {first}",
            where=f"knn, {split} features",
            remedy="check the backbone's weights, its input normalisation and its precision",
        )
    return features
