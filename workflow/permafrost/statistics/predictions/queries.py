"""Retrieval: one row per query; metrics are means over queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.metrics.ratios import divide
from permafrost.statistics.predictions.columns import array_of, groups_of, need_columns, sorted_rows
from permafrost.statistics.replicates.weighted import weighted_by_counts
from permafrost.statistics.resampling.resamples import Resamples

# bytes of resample counts converted to floats at a time
_FLOAT_BYTES = 16 << 20


@dataclass(frozen=True)
class Queries:
    """Results of the queries of a test set; see `predictions.Predictions`.

    Attributes
    ----------
    precision : (N,) average precision, NaN if no image is relevant.
    relevant : (N,) number of relevant images in the gallery.
    found : (N, len(ks)) number of relevant images among the nearest k.
    ks : numbers k of nearest images.
    gallery : number of images ranked per query.
    rules : definition of relevance, gallery and metric.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    precision: np.ndarray
    relevant: np.ndarray
    found: np.ndarray
    ks: tuple[int, ...]
    gallery: int
    classes: list[str]
    rules: tuple

    task = "retrieval"
    dead_classes = ()
    boundary = False

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def truth(self) -> np.ndarray:
        """(N,) share of the gallery that is relevant: the precision of a random order."""
        return self.relevant / self.gallery

    @property
    def truth_keys(self) -> np.ndarray:
        return self.relevant

    @property
    def answers(self) -> np.ndarray:
        return self.precision

    @classmethod
    def from_table(cls, table, metadata: dict) -> Queries:
        """From a table of the probe ``retrieval``."""
        need_columns(table, ("sample_id", "average_precision", "relevant", "found"))
        ks = tuple(metadata["ks"])
        order, ids, groups = sorted_rows(table.column("sample_id").to_pylist(), groups_of(table))
        return cls(
            ids,
            groups,
            array_of(table, "average_precision")[order],
            array_of(table, "relevant")[order],
            array_of(table, "found", len(ks))[order],
            ks,
            metadata["gallery"],
            list(metadata["classes"]),
            tuple(sorted(metadata["settings"].items())),
        )

    def each(self) -> dict[str, np.ndarray]:
        """Metric name to (N,) values per query; NaN if no image is relevant.

        ``recall_at_k`` is the share of all relevant images that are among the nearest k;
        ``hit_at_k`` is 1 if any is, which is called recall at k in metric learning.
        """
        relevant = self.relevant[:, None].astype(np.float64)
        recall = divide(self.found.astype(np.float64), np.broadcast_to(relevant, self.found.shape))
        hit = np.where(relevant > 0, self.found > 0, np.nan)
        return {
            "mean_ap": self.precision,
            **{f"recall_at_{k}": recall[:, place] for place, k in enumerate(self.ks)},
            **{f"hit_at_{k}": hit[:, place] for place, k in enumerate(self.ks)},
        }

    def evaluate(self) -> dict:
        """Every metric on the whole test set: the mean over queries with relevant images."""
        once = Resamples.of(np.ones((len(self), 1), np.uint8))
        values = self.family(np.arange(len(self))).replicates(once)
        return {name: float(value[0]) for name, value in values.items()}

    def family(self, units: np.ndarray) -> _Means:
        """Every metric on resamples of the units."""
        return _Means(self.each(), units)


class _Means:
    """Means over queries on resamples, from sums over units."""

    def __init__(self, each: dict[str, np.ndarray], units: np.ndarray) -> None:
        self.names, count = tuple(each), int(units.max()) + 1
        defined = ~np.isnan(each["mean_ap"])
        rows = [defined, *(np.where(defined, values, 0.0) for values in each.values())]
        self.sums = np.stack([np.bincount(units, row, minlength=count) for row in rows])
        self.proportions = frozenset(name for name in each if name.startswith("hit_at_"))

    def holders(self, metric: str) -> np.ndarray:
        """(1,) number of units with a query that has relevant images; see
        `families.SingleLabel`."""
        return np.array([np.count_nonzero(self.sums[0])])

    def replicates(self, resamples: Resamples, metrics=None) -> dict[str, np.ndarray]:
        """Metric name to (B,); NaN on a resample without a query that has relevant images."""
        drawn = weighted_by_counts({"sums": self.sums}, resamples, float_bytes=_FLOAT_BYTES)
        total = drawn["sums"]
        means = divide(total[1:], np.broadcast_to(total[0], total[1:].shape))
        return {
            name: means[place]
            for place, name in enumerate(self.names)
            if metrics is None or name in metrics
        }
