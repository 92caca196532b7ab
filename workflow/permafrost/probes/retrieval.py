"""Image retrieval: every test image ranks a gallery, and should find its like first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.metrics.retrieval import average_precisions, found_within
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import write_rows
from permafrost.probes.job import ProbeJob

VALUES = 4_000_000  # distances held at a time


@dataclass(frozen=True)
class RetrievalOptions:
    """See ``retrieval`` in the schema of the configuration."""

    relevant: str
    gallery: str
    k: list[int]
    metric: str


@dataclass(frozen=True)
class Retrieved:
    """How each query fared.

    Attributes
    ----------
    precision : (N,) average precision; NaN where the gallery holds nothing relevant.
    relevant : (N,) int number of relevant images in the gallery.
    gallery : number of images that a query ranks.
    ks : the numbers of nearest images that were counted.
    found : (N, len(ks)) int number of relevant images among the nearest k.
    gates : names of the sanity checks that were not passed.
    """

    precision: np.ndarray
    relevant: np.ndarray
    gallery: int
    ks: list[int]
    found: np.ndarray
    gates: list[str]

    def write(self, job: ProbeJob, splits: dict[str, Features]) -> None:
        """Write one row per query: its average precision, and the relevant images it found."""
        found = np.ascontiguousarray(self.found, dtype=np.int32)
        columns = {
            "average_precision": pa.array(self.precision, pa.float64()),
            "relevant": pa.array(self.relevant.astype(np.int32)),
            "found": pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), found.shape[1]),
        }
        write_rows(
            job,
            splits,
            columns,
            settings={
                name: getattr(job.options, name) for name in ("relevant", "gallery", "metric")
            },
            gates=self.gates,
            task="retrieval",
            gallery=self.gallery,
            ks=self.ks,
        )


def run_retrieval(
    splits: dict[str, Features], options: RetrievalOptions, *, device: str = "cpu", seed: int = 0
) -> Retrieved:
    """Let every test image rank the gallery by its distance; `device` and `seed` are not used.

    Relevant are images of the query's class (of multi-label data: that share a label with it), or of
    its group. Where the gallery is the test split itself, a query is not in it.

    Raises
    ------
    PermafrostError : nothing in the gallery is relevant to any query; fewer gallery images than the
        smallest k; NaN or infinite features.
    """
    check_splits(splits, where="retrieval")
    queries, gallery = splits["test"], splits[options.gallery]
    itself = options.gallery == "test"
    size = len(gallery.embeddings) - itself
    ks = [k for k in sorted(options.k) if k <= size]
    if not ks:
        raise PermafrostError(
            f"k = {min(options.k)} nearest images of {size} in the gallery",
            where="retrieval: k",
            remedy=f"add a k from 1 to {size}" if size else "choose another gallery",
        )
    same = _relevance(queries, gallery, options.relevant)
    measure = _Distances(gallery.embeddings, options.metric)
    step = max(1, VALUES // len(gallery.embeddings))
    parts = []
    for start in range(0, len(queries.embeddings), step):
        rows = slice(start, start + step)
        distances, relevant = measure.to(queries.embeddings[rows]), same(rows)
        if itself:
            own = np.arange(len(distances))
            distances[own, start + own], relevant[own, start + own] = np.inf, False
        parts.append(
            (
                average_precisions(distances, relevant),
                relevant.sum(axis=1),
                found_within(distances, relevant, ks),
            )
        )
    precision, relevant, found = (np.concatenate(part) for part in zip(*parts, strict=True))
    lonely = int(np.count_nonzero(relevant == 0))
    if lonely == len(relevant):
        raise PermafrostError(
            f"no image of the gallery is of the {options.relevant} of any query",
            where="retrieval",
            remedy="choose another gallery, or what is relevant: groups are usually kept in one split",
        )
    gates = [f"k_above_gallery:{k}" for k in sorted(options.k) if k > size]
    gates += [f"queries_without_relevant:{lonely}"] if lonely else []
    return Retrieved(precision, relevant, size, ks, found, gates)


run = on_embeddings(run_retrieval)


def _relevance(queries: Features, gallery: Features, what: str):
    """A function of rows of queries that gives (Q, G) bool, what is relevant to them."""
    if what == "group":
        ours, theirs = (_groups(split) for split in (queries, gallery))
        return lambda rows: ours[rows, None] == theirs[None]
    ours, theirs = np.asarray(queries.labels), np.asarray(gallery.labels)
    if ours.ndim == 1:
        return lambda rows: ours[rows, None] == theirs[None]
    weights = theirs.astype(np.float32).T
    return lambda rows: ours[rows].astype(np.float32) @ weights > 0


def _groups(split: Features) -> np.ndarray:
    names = split.samples["group_id"].to_pylist()
    if any(name is None for name in names):
        raise PermafrostError(
            f"{names.count(None)} of {len(names)} images have no group",
            where="retrieval: relevant",
            remedy="ask for images of the same class, or give the dataset groups",
        )
    return np.array(names)


class _Distances:
    """Distances to a gallery in float64; equal images of the gallery are at exactly equal ones.

    A product of matrices need not give the same digits for equal rows, so each different row is
    multiplied once.
    """

    def __init__(self, gallery: np.ndarray, metric: str) -> None:
        different, self.place = np.unique(gallery, axis=0, return_inverse=True)
        self.place, self.metric = self.place.reshape(-1), metric
        self.mean = different.mean(axis=0, dtype=np.float64)
        self.rows = self._prepared(different)
        self.squares = np.einsum("gd,gd->g", self.rows, self.rows)

    def to(self, queries: np.ndarray) -> np.ndarray:
        """(Q, G): 1 - cosine (1 where either vector is zero), or squared differences."""
        queries = self._prepared(queries)
        products = queries @ self.rows.T
        if self.metric == "cosine":
            return (1.0 - products)[:, self.place]
        squares = np.einsum("qd,qd->q", queries, queries)
        return (squares[:, None] + self.squares - 2.0 * products)[:, self.place]

    def _prepared(self, features: np.ndarray) -> np.ndarray:
        features = features.astype(np.float64)
        if self.metric == "l2":
            return features - self.mean  # moves no distance, and leaves it more digits
        largest = np.abs(features).max(axis=1, keepdims=True)
        features /= np.where(largest == 0, 1.0, largest)
        lengths = np.sqrt(np.einsum("nd,nd->n", features, features))[:, None]
        return features / np.where(lengths == 0, 1.0, lengths)
