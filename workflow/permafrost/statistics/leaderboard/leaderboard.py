"""The leaderboard: every score of a run with its rank, as one tidy table, in parquet and CSV."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from permafrost.core.columns import Column
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import metadata_of, read_table, write_csv, write_table
from permafrost.core.versions import gather_versions
from permafrost.metrics.tasks import METRICS, place_of
from permafrost.statistics.across_datasets.cells import FACTS, Cells
from permafrost.statistics.across_datasets.ranks import add_mean_ranks, add_ranks, add_seed_spread
from permafrost.statistics.leaderboard.derived import about_derived
from permafrost.statistics.tables import ScoreColumns

_METHODS = ScoreColumns.but("method")[0].values
_FITS = ("exact", "converted", "subset", "rescaled", "assumed", "copied", "neutral", "picture")


class Leaderboard(ScoreColumns):
    """One row of results/leaderboard.parquet and .csv: a score row with the rank of the backbone. Rows are ordered
    by dataset, probe, setting, metric (the primary one first), class, seed, rank and backbone.

    Columns
    -------
    probe : … measures for measures of the features, profile for costs of the backbone.
    metric : … Tables of scores, measures and profiles describe them.
    method : … quartiles: of the repeated times of a profile, not an interval. Null for what is counted once.
    unit : … repeat for what a profile did several times, null for what it counts once.
    n_units : … For a profile, of repeats.
    gates : … incomplete_run: jobs of other backbones failed, so fewer than planned were ranked.
    settings : … For a profile, the unit and the machine.
    fit : How well the dataset fits the input of the backbone (docs/backbones.md); null if the entries do not
        determine it, as for backbones without pixels.
    bands_real : Number of bands of the dataset that are input; a band that is used twice counts once.
    bands_wanted : Number of bands that the backbone wants.
    input_id : Digest of the network, its files and its input. Rows of one dataset with the same digest are one
        measurement.
    rank : Rank of the backbone within dataset, probe, setting, metric and seed; 1 is best, ties share the mean of
        their ranks; null for single classes, undefined values, and derived backbones, unless `ranking` asks for them.
    mean_rank : Mean over datasets of the backbone's rank on the primary metric, per probe; with several seeds,
        their mean is ranked. Null if it lacks a result that another backbone has, or has no ranks.
    n_seeds : Number of seeds for which this metric of this dataset, backbone and probe is defined; the same in
        the rows of all of them.
    seed_mean : Mean of the value over those seeds; null if there is none.
    seed_std : Standard deviation of the value over those seeds (n - 1 in the denominator), on the same test set;
        null for fewer than two. The interval does not include it: it describes the choice of the test set.
    lower, upper : … For a profile, quartiles of the repeats.
    confidence, resamples, n_undefined, bootstrap_seed : … Null for a profile.
    n_test, n_train, n_val : … Null for a measure that does not use them.
    fingerprint, backbone_fingerprint : … Measures and profiles have their own (see there).
    """

    columns = ScoreColumns.changed(
        *ScoreColumns.but("task", values=tuple(METRICS)),
        *ScoreColumns.but(
            *("confidence", "resamples", "n_undefined", "n_units", "n_test", "n_train", "n_val"),
            "bootstrap_seed",
            nullable=True,
        ),
        *ScoreColumns.but("method", nullable=True, values=(*_METHODS, "quartiles")),
        *ScoreColumns.but("unit", nullable=True, values=("group", "image", "repeat")),
        Column("fit", nullable=True, values=_FITS),
        Column("bands_real", "int64", nullable=True, least=0),
        Column("bands_wanted", "int64", nullable=True, least=0),
        Column("input_id", nullable=True),
        Column("rank", "double", nullable=True),
        Column("mean_rank", "double", nullable=True),
        Column("n_seeds", "int64", least=0),
        Column("seed_mean", "double", nullable=True),
        Column("seed_std", "double", nullable=True),
    )


_KEY = ("dataset", "probe", "setting", "backbone", "seed", "metric", "class")


def read_scores(
    paths: Iterable[Path], *, expect: Mapping[str, str] | None = None
) -> list[pa.Table]:
    """Open score tables; `expect` maps a path to the required fingerprint of its table."""
    expect = {} if expect is None else expect
    return [read_table(path, expect=expect.get(str(path)))[0] for path in paths]


def build_leaderboard(
    tables: list[pa.Table],
    cells: Iterable[Mapping] = (),
    unranked: Collection[str] = (),
    derived_datasets: Collection[str] = (),
) -> pa.Table:
    """All score rows with their ranks and the spread over seeds, in the leaderboard's order.

    Parameters
    ----------
    tables : score tables, one per evaluation (dataset, backbone, probe, seed).
    cells : facts about the input of each backbone on each dataset, if known (`cells.Cells`).
    unranked : backbones without ranks, which leave the ranks of others as they are.
    derived_datasets : those that mean ranks leave out, since they have the images of others.

    Raises
    ------
    PermafrostError : no table, tables with different columns, or a duplicate score.
    """
    if not tables:
        raise PermafrostError(
            "there are no scores for a leaderboard", remedy="run at least one probe"
        )
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
    aside = pc.is_in(scores["backbone"], pa.array(list(unranked), pa.string()))
    ranked = add_mean_ranks(add_ranks(scores.filter(pc.invert(aside))), derived_datasets)
    whole = pa.concat_tables([ranked, scores.filter(aside)], promote_options="default")
    return sort_leaderboard(add_seed_spread(whole))


def _with_cells(scores: pa.Table, cells: Cells) -> pa.Table:
    """Add the columns of the cells to `scores`, null if unknown."""
    names: list[tuple[str, str]] = list(
        zip(*(scores[name].to_pylist() for name in ("dataset", "backbone")), strict=True)
    )
    for fact in FACTS:
        values = [cells.fact(*of_row, fact) for of_row in names]
        scores = scores.append_column(fact, pa.array(values, Leaderboard.arrow().field(fact).type))
    return scores


def sort_leaderboard(table: pa.Table) -> pa.Table:
    """Sort rows by dataset, probe, setting (the ranked one first, then in input order), metric (the
    primary one first), class, seed, rank, backbone."""
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
    """Build the leaderboard and write it as parquet, with `metadata`, and as CSV.

    `metadata` has at least ``fingerprint``; its ``derived`` names backbones without ranks, ``derived_datasets``
    datasets that mean ranks leave out. `cells` as in `build_leaderboard`. Returns the table.
    """
    table = build_leaderboard(
        tables, cells, metadata.get("derived", ()), metadata.get("derived_datasets", ())
    )
    versions = gather_versions([metadata_of(one) for one in tables])
    metadata = {**metadata, "score_versions": versions}
    metadata |= about_derived(tables)
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
