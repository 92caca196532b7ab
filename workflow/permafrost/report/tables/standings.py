"""The standings over groups of datasets, in parquet and CSV."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.report.tables.leaderboard import write_csv
from permafrost.statistics.across_datasets.cells import Cells
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings


def write_standings(
    tables: list[pa.Table], parquet_path, csv_path, metadata: dict, options: dict
) -> pa.Table:
    """Build the standings of score tables and write them twice; `metadata` holds at least ``fingerprint``.

    The parquet file's own metadata have what tests say, as ``tests``.

    Parameters
    ----------
    options : ``groups``, pairs of a name and its datasets, ``ranking`` and ``comparison`` of the configuration;
        ``cells``, what is known of them (`Cells.of`).
    """
    ranking = Ranking(
        groups=dict(options["groups"]),
        confidence=options["comparison"]["confidence"],
        seed=options["comparison"]["seed"],
        **options["ranking"],
    )
    tests: list[dict] = []
    table = build_standings(tables, ranking, tests, Cells.of(options.get("cells", ())))
    if left_out := metadata.get("left_out"):
        table = _with_reasons(table, left_out, ranking.groups)
    write_csv(csv_path, table)
    write_table(parquet_path, table, {**metadata, "tests": tests})
    return table


def _with_reasons(table: pa.Table, left_out: list[dict], groups: Mapping) -> pa.Table:
    """The column ``unfit``: which backbones do not fit which datasets of a row's group and probe, and why."""
    keys = list(zip(table["group"].to_pylist(), table["probe"].to_pylist(), strict=True))
    said = {
        (group, probe): "; ".join(
            f"{one['backbone']} on {one['dataset']}: {one['reason']}"
            for one in left_out
            if one["dataset"] in groups[group] and one["probe"] in (None, probe)
        )
        for group, probe in set(keys)
    }
    place = table.column_names.index("unfit")
    column = pa.array([said[key] for key in keys], pa.string())
    return table.set_column(place, table.schema.field("unfit"), column)
