"""Published results that a configuration names, as one table: a row of each score, with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.tables import write_csv, write_table
from permafrost.data.folders import content_digest
from permafrost.statistics.leaderboard.published import read_published

_OF_SOURCE = ("source", "url", "date")
# column of the published name, the entry's mapping of it, and the column of ours
_SAME = (
    ("backbone", "backbones", "backbone_here"),
    ("dataset", "datasets", "dataset_here"),
    ("method", "methods", "probe_here"),
)


def write_published(
    entries: Iterable[Mapping], places: Iterable, parquet_path, csv_path, metadata: dict
) -> pa.Table:
    """Read all files and write their scores twice.

    Parameters
    ----------
    entries : of the files: ``digest, source, url, date, duplicates, backbones, datasets, methods``; places : of them.

    Raises
    ------
    PermafrostError : a file that cannot be read, or is another than was planned.
    """
    table = pa.concat_tables(
        [_of_file(entry, path) for entry, path in zip(entries, places, strict=True)]
    )
    write_csv(csv_path, table)
    write_table(parquet_path, table, metadata)
    return table


def _of_file(entry: Mapping, path) -> pa.Table:
    if content_digest(path) != entry["digest"]:
        raise PermafrostError(
            "changed since the run was planned", where=path, remedy="run snakemake again"
        )
    table = read_published(path, duplicates=entry["duplicates"]).table()
    for column, mapping, ours in _SAME:
        same = [entry[mapping].get(name) for name in table[column].to_pylist()]
        table = table.append_column(ours, pa.array(same, pa.string()))
    for place, name in enumerate(_OF_SOURCE):
        said = pa.array([entry[name]] * table.num_rows, pa.string())
        table = table.add_column(place, name, said)
    return table
