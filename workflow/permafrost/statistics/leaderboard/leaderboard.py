"""The leaderboard: every score of a run with its rank, as one tidy table, in parquet and CSV."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.tables import metadata_of, read_table, write_csv, write_table
from permafrost.core.versions import gather_versions
from permafrost.metrics.tasks import place_of
from permafrost.statistics.across_datasets.cells import FACTS, Cells
from permafrost.statistics.across_datasets.ranks import add_mean_ranks, add_ranks, add_seed_spread

_KEY = ("dataset", "probe", "setting", "backbone", "seed", "metric", "class")


def read_scores(
    paths: Iterable[Path], *, expect: Mapping[str, str] | None = None
) -> list[pa.Table]:
    """Open score tables; `expect` gives the fingerprint that the table at a path must carry."""
    expect = {} if expect is None else expect
    return [read_table(path, expect=expect.get(str(path)))[0] for path in paths]


def build_leaderboard(tables: list[pa.Table], cells: Iterable[Mapping] = ()) -> pa.Table:
    """All score rows with their ranks and the spread over seeds, in the leaderboard's order.

    Parameters
    ----------
    tables : score tables, one per evaluation (dataset, backbone, probe, seed).
    cells : what each backbone is fed of each dataset, where that is known (`cells.Cells`).

    Raises
    ------
    PermafrostError : no table, tables with different columns, or a score that occurs twice.
    """
    if not tables:
        raise PermafrostError("no scores to make a leaderboard of", remedy="run at least one probe")
    schema = tables[0].schema.remove_metadata()
    for table in tables[1:]:
        if not table.schema.remove_metadata().equals(schema):
            raise PermafrostError(
                f"score tables differ in their columns ({_difference(schema, table.schema)})",
                remedy="delete results/scores and run snakemake again",
            )
    scores = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    _refuse_repeats(scores)
    scores = _with_cells(scores, Cells.of(cells))
    return sort_leaderboard(add_seed_spread(add_mean_ranks(add_ranks(scores))))


def _with_cells(scores: pa.Table, cells: Cells) -> pa.Table:
    """`scores` with the columns of their cells, null where nothing is known."""
    names = list(zip(*(scores[name].to_pylist() for name in ("dataset", "backbone")), strict=True))
    for fact in FACTS:
        kind = pa.int64() if fact.startswith("bands") else pa.string()
        scores = scores.append_column(fact, pa.array([cells.fact(*n, fact) for n in names], kind))
    return scores


def sort_leaderboard(table: pa.Table) -> pa.Table:
    """Rows by dataset, probe, setting (what is ranked first, then as they come), metric (the primary
    one first), class, seed, rank, backbone."""
    names = (
        "dataset",
        "probe",
        "setting",
        "primary",
        "metric",
        "class",
        "seed",
        "rank",
        "backbone",
    )
    rows = table.select(names).to_pylist()
    settings = dict.fromkeys([None, *(row["setting"] for row in rows)])
    places = {setting: place for place, setting in enumerate(settings)}
    order = sorted(range(len(rows)), key=lambda row: _place(rows[row], places))
    return table.take(pa.array(order, pa.int64()))


def _place(row: dict, settings: dict[str | None, int]) -> tuple:
    rank = row["rank"]
    return (
        row["dataset"],
        row["probe"],
        settings[row["setting"]],
        not row["primary"],
        place_of(row["metric"]),
        row["metric"],
        (row["class"] is not None, row["class"] or ""),
        row["seed"],
        math.inf if rank is None or math.isnan(rank) else rank,
        row["backbone"],
    )


def write_leaderboard(
    tables: list[pa.Table], parquet_path, csv_path, metadata: dict, cells: Iterable[Mapping] = ()
) -> pa.Table:
    """Build the leaderboard and write it twice: parquet with `metadata`, CSV for everything else.

    `metadata` holds at least ``fingerprint``; `cells` as in `build_leaderboard`. Returns the table.
    """
    table = build_leaderboard(tables, cells)
    versions = gather_versions([metadata_of(one) for one in tables])
    metadata = {**metadata, "score_versions": versions}
    write_csv(csv_path, table)
    write_table(parquet_path, table, metadata)
    return table


def _refuse_repeats(scores: pa.Table) -> None:
    seen: set[tuple] = set()
    for key in zip(*(scores[name].to_pylist() for name in _KEY), strict=True):
        if key in seen:
            named = ", ".join(
                f"{name} {value}" for name, value in zip(_KEY, key, strict=True) if value
            )
            raise PermafrostError(
                f"a score occurs twice ({named})", remedy="pass each score table once"
            )
        seen.add(key)


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    names = sorted(set(one.names) ^ set(other.names))
    changed = [
        name for name in one.names if name in other.names and one.field(name) != other.field(name)
    ]
    return ", ".join(names + changed) or "their order"
