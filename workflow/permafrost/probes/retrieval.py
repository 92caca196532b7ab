"""Image retrieval: every test image ranks a gallery; relevant images should rank first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column
from permafrost.core.errors import PermafrostError
from permafrost.core.options import Different, Options, Positive
from permafrost.core.row_file import row_blocks
from permafrost.metrics.retrieval import average_precisions, found_within
from permafrost.probes.embeddings.features import Features, check_splits, on_embeddings
from permafrost.probes.embeddings.predictions import write_rows
from permafrost.probes.job import ProbeJob
from permafrost.probes.knn.distances import unit
from permafrost.probes.knn.rows import Rows, equal_rows, mean_of
from permafrost.probes.metadata import PredictionColumns
from permafrost.probes.options import Metric


class Queries(PredictionColumns):
    """One row of results/predictions/{dataset}/{backbone}/seed{seed}/{probe}.parquet of the probe retrieval: one
    test image as a query. The metadata of the file name the numbers of nearest images (ks) and the size of
    the gallery.

    Columns
    -------
    average_precision : Average precision of the gallery ordered by distance; NaN if no image is relevant to the query.
    relevant : Number of images in the gallery that are relevant to the query.
    found : Number of relevant images among the k nearest, for every k of ks in the metadata.
    """

    columns = PredictionColumns.changed(
        Column("average_precision", "double"),
        Column("relevant", "int32", least=0),
        Column("found", "fixed_size_list<int32>"),
    )


VALUES = 4_000_000  # distances ranked at once
#: bytes of float64 rows; a gallery of at most this size is kept in memory
SMALL_BYTES = 256 * 2**20
#: bytes of distances to a larger gallery per reading of it
GROUP_BYTES = 512 * 2**20


@dataclass(frozen=True, kw_only=True)
class RetrievalOptions(Options):
    """Every test image ranks a gallery by distance; images of its class or group should rank first."""

    relevant: Literal["class", "group"] = "class"
    """Images that are relevant to a query; for multi-label data, class means images that share a label with it."""
    gallery: Literal["train", "val", "test"] = "train"
    """Split that is searched; in test, a query does not find itself. Groups are usually kept in one split."""
    k: Different[Positive] = field(default_factory=lambda: [1, 5, 10, 100])
    """Numbers of nearest images for recall and hits; those above the gallery's size are omitted, with a warning."""
    metric: Metric = "cosine"
    """Distance between embeddings."""


@dataclass(frozen=True)
class Retrieved:
    """The results of all queries.

    Attributes
    ----------
    precision : (N,) average precision; NaN if the gallery has no relevant image.
    relevant : (N,) int number of relevant images in the gallery.
    gallery : number of images that a query ranks.
    ks : the numbers k of nearest images.
    found : (N, len(ks)) int number of relevant images among the nearest k.
    gates : names of the failed sanity checks.
    """

    precision: np.ndarray
    relevant: np.ndarray
    gallery: int
    ks: list[int]
    found: np.ndarray
    gates: list[str]

    def write(self, job: ProbeJob, splits: dict[str, Features]) -> None:
        """Write one row per query: its average precision, and its numbers of found relevant images."""
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
    """Rank the gallery by distance for every test image; `device` and `seed` are not used.

    Images of the query's class (multi-label data: images that share a label with it) or of
    its group are relevant. If the gallery is the test split, the query itself is excluded.

    Raises
    ------
    PermafrostError : no gallery image is relevant to any query; fewer gallery images than the
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
    parts = []
    for rows, distances in _in_blocks(measure, queries.embeddings):
        relevant = same(rows)
        if itself:
            own = np.arange(len(distances))
            distances[own, rows.start + own], relevant[own, rows.start + own] = np.inf, False
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
            remedy="choose another gallery, or another `relevant`: groups are usually in one split",
        )
    gates = [f"k_above_gallery:{k}" for k in sorted(options.k) if k > size]
    gates += [f"queries_without_relevant:{lonely}"] if lonely else []
    return Retrieved(precision, relevant, size, ks, found, gates)


run = on_embeddings(run_retrieval, streams=True)


def _in_blocks(measure: _Distances, queries) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of the queries and their distances (q, G), about `VALUES` at once; a large gallery is read once
    for several slices."""
    step = max(1, VALUES // measure.size)
    group = step if measure.small else max(1, GROUP_BYTES // (8 * measure.size))
    for start in range(0, len(queries), group):
        near = measure.to(queries[start : start + group])
        for first in range(0, len(near), step):
            found = measure.placed(near[first : first + step])
            yield slice(start + first, start + first + len(found)), found


def _relevance(queries: Features, gallery: Features, what: str):
    """A function from rows of queries to (Q, G) bool: gallery images relevant to them."""
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
            remedy="use images of the same class as relevant, or give the dataset groups",
        )
    return np.array(names)


class _Distances:
    """Distances to a gallery in float64; equal gallery images have exactly equal distances.

    A product of matrices may give different digits for equal rows, so each distinct row is
    multiplied once. A small gallery is prepared once, a large one in blocks for every group of queries. This
    depends only on its shape, so that an array and a `RowFile` give identical results.
    """

    def __init__(self, gallery, metric: str) -> None:
        self.size, self.metric = len(gallery), metric
        first = equal_rows(gallery)
        kept = np.flatnonzero(first == np.arange(self.size))
        self.place = None if len(kept) == self.size else np.searchsorted(kept, first)
        self.rows = Rows(gallery, "l2", None if self.place is None else kept)
        self.mean = mean_of(self.rows) if metric == "l2" else 0.0
        self.small = gallery.shape[1] * self.size * 8 <= SMALL_BYTES
        if self.small:
            self.rows = self._prepared(self.rows[:])
            self.squares = np.einsum("gd,gd->g", self.rows, self.rows)

    def to(self, queries: np.ndarray) -> np.ndarray:
        """(Q, R) from queries to the distinct rows: 1 - cosine (1 if either is zero), or squared differences."""
        queries = self._prepared(queries)
        if self.small:
            return self._between(queries, self.rows, self.squares)
        found = np.empty((len(queries), len(self.rows)))
        for block in row_blocks(self.rows):
            rows = self._prepared(self.rows[block])
            found[:, block] = self._between(queries, rows, np.einsum("gd,gd->g", rows, rows))
        return found

    def placed(self, distances: np.ndarray) -> np.ndarray:
        """(Q, G) from (Q, R), in a writable array."""
        return distances if self.place is None else distances[:, self.place]

    def _between(self, queries, rows, squares) -> np.ndarray:
        products = queries @ rows.T
        if self.metric == "cosine":
            return 1.0 - products
        return np.einsum("qd,qd->q", queries, queries)[:, None] + squares - 2.0 * products

    def _prepared(self, features: np.ndarray) -> np.ndarray:
        if self.metric == "l2":
            return (
                features.astype(np.float64) - self.mean
            )  # changes no distance, and improves its precision
        return unit(features)
