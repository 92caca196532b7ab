"""Which test images are shown in the report: some drawn at random, the worst and the best."""

from __future__ import annotations

import numpy as np

from permafrost.core.identity import derive_seed

EXTREMES = 2


class Ranked:
    """The images to show, kept up to date while a test set goes by.

    `pictures` of `count` images are drawn at random by the dataset's name alone, so that every probe
    shows the same; besides them the two worst and the two best of those that can be rated. Zero
    `pictures` shows none at all.
    """

    def __init__(self, count: int, pictures: int, dataset: str) -> None:
        rng = np.random.default_rng(derive_seed("pictures", dataset))
        self.drawn = {int(row) for row in rng.permutation(count)[:pictures]}
        self._active = pictures > 0
        # (rank, row), the first ones shown; as many best as could also be among the worst
        self._worst: list[tuple[float, int]] = []
        self._best: list[tuple[float, int]] = []

    def offer(self, row: int, rating: float) -> None:
        """One image that is not drawn, by how good its prediction is."""
        if self._active and row not in self.drawn:
            self._worst = sorted([*self._worst, (rating, row)])[:EXTREMES]
            self._best = sorted([*self._best, (-rating, row)])[: 2 * EXTREMES]

    @property
    def wanted(self) -> set[int]:
        """Rows that may be shown, by what was offered so far."""
        return self.drawn | {row for _, row in self._worst + self._best}

    def labels(self) -> dict[int, str]:
        """Row to ``drawn``, ``worst`` or ``best``, in the order of rows."""
        labels = dict.fromkeys(self.drawn, "drawn")
        labels |= {row: "worst" for _, row in self._worst}
        best = [row for _, row in self._best if row not in labels]
        labels |= dict.fromkeys(best[:EXTREMES], "best")
        return {row: labels[row] for row in sorted(labels)}
