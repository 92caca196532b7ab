"""The outputs of a recorded run, for tables that are computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from permafrost.core.tables import read_table
from permafrost.statistics.predictions.reading import Predictions, predictions_from_table


@dataclass(frozen=True)
class Recorded:
    """A folder of results.

    Attributes
    ----------
    plan : recorded (`permafrost.plan.recorded`).
    place : from a row of its outputs to the path.
    """

    plan: Mapping
    place: Callable[[dict], Path]

    def planned(self, stage: str, **names) -> list[dict]:
        """The outputs of a stage with these names, such as ``dataset`` and ``backbone``."""
        return [
            row
            for row in self.plan["outputs"]
            if row["stage"] == stage and all(row[name] == names[name] for name in names)
        ]


def read_runs(tables: Iterable[tuple[str, int, Path, str]]) -> dict[str, dict[int, Predictions]]:
    """Backbone -> seed -> predictions, from backbone, seed, path and fingerprint of each table."""
    found: dict[str, dict[int, Predictions]] = {}
    for backbone, seed, path, expect in tables:
        table = read_table(path, expect=expect)
        found.setdefault(backbone, {})[seed] = predictions_from_table(*table)
    return found
