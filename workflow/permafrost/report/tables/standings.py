"""The standings over groups of datasets, in parquet and CSV."""

from __future__ import annotations

import pyarrow as pa

from permafrost.core.tables import write_table
from permafrost.report.tables.leaderboard import write_csv
from permafrost.statistics.across_datasets.ranking import Ranking
from permafrost.statistics.across_datasets.standings_table import build_standings


def write_standings(
    tables: list[pa.Table], parquet_path, csv_path, metadata: dict, options: dict
) -> pa.Table:
    """Build the standings of score tables and write them twice; `metadata` holds at least ``fingerprint``.

    The parquet file's own metadata have what tests say, as ``tests``.

    Parameters
    ----------
    options : ``groups``, pairs of a name and its datasets, ``ranking`` and ``comparison`` of the configuration.
    """
    ranking = Ranking(
        groups=dict(options["groups"]),
        confidence=options["comparison"]["confidence"],
        seed=options["comparison"]["seed"],
        **options["ranking"],
    )
    tests: list[dict] = []
    table = build_standings(tables, ranking, tests)
    write_csv(csv_path, table)
    write_table(parquet_path, table, {**metadata, "tests": tests})
    return table
