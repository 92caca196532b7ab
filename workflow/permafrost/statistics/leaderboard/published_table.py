"""Published results that a configuration lists, as one table: a row per score, with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from permafrost.core.errors import PermafrostError, near_names
from permafrost.core.tables import write_csv, write_table
from permafrost.core.text import printable_name
from permafrost.data.files.folders import content_digest
from permafrost.statistics.leaderboard.published import Reference, read_published

_OF_SOURCE = ("source", "url", "date")
# column of the published name, the entry's mapping of names, and our column
_SAME = (
    ("backbone", "backbones", "backbone_here"),
    ("dataset", "datasets", "dataset_here"),
    ("method", "methods", "probe_here"),
)


def write_published(
    entries: Iterable[Mapping], places: Iterable, parquet_path, csv_path, metadata: dict
) -> pa.Table:
    """Read all files and write their scores as parquet and CSV.

    Parameters
    ----------
    entries : per file ``digest, source, url, date, duplicates, backbones, datasets, methods``;
        places : their paths.

    Raises
    ------
    PermafrostError : a file that cannot be read, or that changed since planning.
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


def given_names(what: str, given: Iterable[str]) -> dict[str, str]:
    """``THEIRS=OURS`` arguments of the command line as a mapping.

    Raises
    ------
    PermafrostError : an argument without ``=``.
    """
    names = {}
    for text in given:
        theirs, sign, ours = text.rpartition("=")
        if not sign:
            raise PermafrostError(
                "is no pair of names",
                where=f"--{what} {printable_name(text)}",
                remedy="give THEIRS=OURS with names of the two",
            )
        names[theirs] = ours
    return names


def wrong_names(
    what: str,
    names: Mapping[str, str],
    references: Iterable[Reference],
    own: Iterable[str],
    where: str,
) -> list[PermafrostError]:
    """An error for each name that does not exist on its side.

    Parameters
    ----------
    what : ``backbone``, ``dataset`` or ``method``; a method is our probe.
    names : theirs to ours; own : our names.
    """
    published, own = {getattr(one, what) for one in references}, set(own)
    return [
        PermafrostError(
            f"no {what} {printable_name(name)!r} {side}, {near_names(name, known)}",
            where=where,
            remedy="name what both have: the published name first, then one's own",
        )
        for pair in names.items()
        for name, known, side in zip(pair, (published, own), ("published", "here"), strict=True)
        if name not in known
    ]
