"""The features of a recorded run, for tables that are computed from them."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.core.errors import PermafrostError, look_up
from permafrost.report.tables.recorded import Recorded
from permafrost.statistics.leaderboard.rows import distinct
from permafrost.statistics.measures.rows import OF_DATES, FeatureRows, read_rows


@dataclass(frozen=True)
class RecordedFeatures(Recorded):
    """A folder of results with features; series are averaged over dates."""

    def features(self, dataset: str, backbone: str, split: str) -> FeatureRows:
        """All samples of a split; raises `PermafrostError` if the store was deleted."""
        (row,) = self.planned("extract", dataset=dataset, backbone=backbone, split=split)
        path = self.place(row)
        if not path.exists():
            raise PermafrostError(
                "the features were deleted",
                where=path,
                remedy=f"run `snakemake {row['path']}`, which extracts them again",
            )
        options = {"split": split, "max_rows": 1 << 60, "seed": 0}
        options |= OF_DATES.get(self.plan["datasets"][dataset].get("dates", "one"), {})
        return read_rows(path, options, dataset=dataset, expect=row["fingerprint"])

    def backbones(self, dataset: str) -> list[str]:
        """Those with planned features on a dataset; an unknown dataset is refused."""
        rows = self.planned("extract")
        look_up(distinct(rows, "dataset"), dataset, "the run has no features on the dataset")
        return distinct([row for row in rows if row["dataset"] == dataset], "backbone")
