"""The outputs of a recorded run, for tables that are computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


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
