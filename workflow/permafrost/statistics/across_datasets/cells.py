"""Input of each backbone on each dataset, for rankings: duplicate measurements and adapted inputs.

A cell is a pair of dataset and backbone. Two cells of one dataset with the same ``input_id`` are
one measurement. A backbone that equals another one on all datasets of a ranking is ranked once,
with it. A ranking with adapted cells is recomputed from the exact cells alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from permafrost.statistics.across_datasets.standings import mean_rank, ranks_within

#: kinds of fit whose input is what the weights expect; an unknown kind (None) counts as exact
EXACT = frozenset({"exact", "converted", None})
#: columns of the leaderboard that describe the cell
FACTS = ("fit", "bands_real", "bands_wanted", "input_id")


@dataclass(frozen=True)
class Cells:
    """Facts of cells: (dataset, backbone) to ``fit``, ``bands_real``, ``bands_wanted``, ``input_id``."""

    facts: Mapping[tuple[str, str], Mapping] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Mapping]) -> Cells:
        return cls({(row["dataset"], row["backbone"]): row for row in rows})

    def fact(self, dataset: str, backbone: str, name: str):
        return self.facts.get((dataset, backbone), {}).get(name)

    def is_exact(self, dataset: str, backbone: str) -> bool:
        return self.fact(dataset, backbone, "fit") in EXACT

    def copies(
        self, backbones: Sequence[str], scored: Mapping[str, Iterable[str]], kept: Iterable[str]
    ) -> dict[str, str]:
        """Backbone to the one that it equals on every dataset on which either has a score.

        Parameters
        ----------
        scored : dataset to the backbones with a score there.
        kept : backbones that are never treated as copies, because the configuration names them.
        """
        first: dict[tuple, str]
        found: dict[str, str]
        kept, first, found = set(kept), {}, {}
        for name in sorted(backbones, key=lambda name: (name not in kept, name)):
            datasets = [dataset for dataset in scored if name in scored[dataset]]
            same = tuple((dataset, self.fact(dataset, name, "input_id")) for dataset in datasets)
            if not same or any(one is None for _, one in same):
                continue
            if name not in kept and same in first:
                found[name] = first[same]
            first.setdefault(same, name)
        return found

    def ranked_exactly(
        self, values, backbones: Sequence[str], datasets: Sequence[str]
    ) -> dict | None:
        """The ranking of exact cells alone; None if all cells are exact.

        It includes the backbones with an exact cell, on the datasets on which each of these has a
        score and an exact cell.

        Parameters
        ----------
        values : (D, K) oriented scores, higher is better; NaN without a score.

        Returns
        -------
        ``datasets``, names; ``ranks``, backbone to (mean rank, place). Both are empty if no dataset
        remains.
        """
        values = np.asarray(values, np.float64)
        there = ~np.isnan(values)
        exact = np.array([[self.is_exact(d, b) for b in backbones] for d in datasets])
        if (exact | ~there).all():
            return None
        exact &= there
        some = np.flatnonzero(exact.any(axis=0))
        rows = np.flatnonzero(exact[:, some].all(axis=1))
        if len(some) < 2 or not len(rows):
            return {"datasets": [], "ranks": {}}
        means = mean_rank(values[np.ix_(rows, some)])
        found = zip(some, means.tolist(), ranks_within(-means).tolist(), strict=True)
        return {
            "datasets": [datasets[row] for row in rows],
            "ranks": {backbones[place]: (mean, rank) for place, mean, rank in found},
        }
