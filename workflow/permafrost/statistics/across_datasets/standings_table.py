"""The overall ranking: one row per group of datasets, probe, backbone and statistic.

A group is ranked under a probe on the datasets on which every backbone has a score; `missing`
describes the alternatives. The other datasets are in the column ``left_out``, imputed ones in
``imputed``. Backbones that are one measurement are ranked once (``same_as``), see `cells`.
Resampling for intervals is described in `draws`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from permafrost.core.columns import Column, Table
from permafrost.core.errors import PermafrostError
from permafrost.core.tables import write_csv, write_table
from permafrost.statistics.across_datasets.cells import Cells
from permafrost.statistics.across_datasets.chances import Chances
from permafrost.statistics.across_datasets.draws import UNCERTAINTIES
from permafrost.statistics.across_datasets.fields import Field, read_fields, scores_of
from permafrost.statistics.across_datasets.missing import complete
from permafrost.statistics.across_datasets.ranking import RANKED_BY, STATISTICS, Ranking
from permafrost.statistics.across_datasets.scored import Scored, with_chances


class Standings(Table):
    """One row of results/standings.parquet and .csv: a statistic of one backbone under one probe over a group of
    datasets (docs/ranking.md). An undefined statistic has no row, or no value and a note.

    Columns
    -------
    group : Group of datasets: all, one of the configuration, or one derived from the entries.
    probe : Name of the probe.
    backbone : Name of the backbone.
    statistic : Name of the statistic.
    higher_is_better : Whether a higher value is better.
    value : The statistic of the observed scores.
    lower : Lower end of its interval.
    upper : Upper end of its interval.
    rank : Rank by this statistic; 1 is best, ties share the mean of their ranks.
    rank_low : Best rank in the confidence set; all true ranks are jointly in these sets with this confidence.
    rank_high : Worst rank in the confidence set.
    letters : Backbones that share a letter do not differ significantly by this statistic.
    uncertainty : Sources of uncertainty in the intervals: the choice of datasets, test items and seeds within
        them, or both.
    n_datasets : Number of ranked datasets.
    datasets : Their names, joined by semicolons.
    left_out : Datasets of the group on which a backbone has no score, or that the run excludes, joined by
        semicolons.
    unfit : Backbones that do not fit a dataset of the group, with dataset and reason, joined by semicolons.
    same_as : Backbones that are the same measurement as another one on all datasets, and were not counted:
        copy=other, joined by semicolons.
    imputed : Datasets on which a missing score of this backbone was imputed, joined by semicolons.
    note : What else the value depends on.
    confidence : Confidence level of intervals and of sets of ranks.
    draws : Number of draws that the interval comes from.
    seed : Seed of the draws.
    """

    columns = (
        *(Column(name) for name in ("group", "probe", "backbone")),
        Column("statistic", values=tuple(STATISTICS)),
        Column("higher_is_better", "bool", nullable=True),
        *(Column(name, "double", nullable=True) for name in ("value", "lower", "upper", "rank")),
        *(Column(name, "int64", nullable=True) for name in ("rank_low", "rank_high")),
        Column("letters", nullable=True),
        Column("uncertainty", values=(*UNCERTAINTIES, "none")),
        Column("n_datasets", "int64", least=0),
        *(Column(name) for name in ("datasets", "left_out", "unfit", "same_as", "imputed", "note")),
        Column("confidence", "double"),
        Column("draws", "int64", nullable=True, least=0),
        Column("seed", "int64", least=0),
    )


#: part of the name of every group that was derived from entries
MADE = ":"


def build_standings(
    tables: Iterable[pa.Table],
    ranking: Ranking,
    tests: list[dict] | None = None,
    cells: Cells | None = None,
) -> pa.Table:
    """Standings of all groups and probes.

    Parameters
    ----------
    tables : score tables with their metadata; tables without a primary score (measures, profiles)
        are skipped.
    tests : list that receives the results of `tested.tested`, with ``group`` and ``probe``.
    cells : facts about the backbones' input, if known.

    Raises
    ------
    PermafrostError : two backbones were evaluated on different test sets of one dataset.
    """
    return standings_of(read_fields(tables), ranking, tests, cells)


def standings_of(
    fields: Mapping[str, Mapping[str, Field]],
    ranking: Ranking,
    tests: list[dict] | None = None,
    cells: Cells | None = None,
) -> pa.Table:
    """Like `build_standings`, of scores by probe and dataset."""
    evaluated = {name for of_probe in fields.values() for name in of_probe}
    sections: list[_Section] = []
    seen: set[tuple] = set()
    for group, datasets in ranking.groups.items():
        for probe, of_probe in sorted(fields.items()):
            asked = [name for name in datasets if name in of_probe]
            # skip a derived group that repeats another one under this probe, or has one dataset
            again = (probe, frozenset(asked)) in seen or len(asked) < 2
            if asked and not (again and MADE in group):
                seen.add((probe, frozenset(asked)))
                absent = [name for name in datasets if name not in evaluated]
                section = _section(group, probe, asked, absent, of_probe, ranking, cells or Cells())
                sections += [section] if section else []
    scored = [section for section in sections if section.scored]
    for place, found in with_chances([one.scored for one in scored], ranking):
        scored[place].add_statistics(ranking, found)
    if tests is not None:
        for one in scored:
            named = {"group": one.common["group"], "probe": one.common["probe"]}
            tests.append({**named, **one.scored.tests(ranking)})
    return Standings.from_rows([row for section in sections for row in section.all_rows()])


@dataclass
class _Section:
    """A group of datasets under a probe.

    Attributes
    ----------
    common : columns that are the same in all of its rows.
    scored : None if nothing can be ranked.
    imputed : column of each backbone.
    copies : backbones whose rows are repeated, as in `_with_copies`.
    rows : of the statistics; exact : rows that follow them.
    """

    common: dict
    scored: Scored | None = None
    imputed: dict[str, str] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)
    exact: list[dict] = field(default_factory=list)

    def add_statistics(self, ranking: Ranking, chances: Chances | None) -> None:
        self.rows += [
            {"backbone": name, "imputed": self.imputed[name], **row}
            for statistic in self.scored.statistics(ranking, chances)
            for name, row in zip(self.scored.backbones, statistic, strict=True)
        ]

    def all_rows(self) -> list[dict]:
        rows = [{**_EMPTY, **self.common, **row} for row in [*self.rows, *self.exact]]
        return _with_copies(rows, self.copies)


def _section(
    group: str,
    probe: str,
    asked: list[str],
    absent: list[str],
    fields: Mapping[str, Field],
    ranking: Ranking,
    cells: Cells,
) -> _Section | None:
    """None if there are fewer than two backbones."""
    backbones = sorted({name for dataset in asked for name in fields[dataset].values})
    named = [*(ranking.reference or ()), *filter(None, [ranking.baseline])]
    copies = cells.copies(backbones, {name: fields[name].values for name in asked}, named)
    # keep copies if only one backbone would remain: they show a tie, and one backbone has no
    # ranking
    copies = copies if len(backbones) - len(copies) > 1 else {}
    backbones = [name for name in backbones if name not in copies]
    if len(backbones) < 2:
        return None
    rule = {"missing": ranking.missing, "baseline": ranking.baseline}
    given = scores_of([fields[name] for name in asked], backbones)
    try:
        table = complete(*given, datasets=asked, backbones=backbones, **rule)
        why = "" if table.datasets else "no dataset has scores of all backbones"
    except PermafrostError as error:  # the baseline has no score under this probe
        table, why = None, error.problem
    ranked = table.datasets if table else []
    common = {
        "group": group,
        "probe": probe,
        "imputed": "",
        "same_as": ";".join(f"{copy}={first}" for copy, first in sorted(copies.items())),
        "confidence": ranking.confidence,
        "seed": ranking.seed,
        "n_datasets": len(ranked),
        "datasets": ";".join(ranked),
        "unfit": "",
        "left_out": ";".join([*(name for name in asked if name not in ranked), *absent]),
    }
    if not ranked:
        nothing = {"note": why, "uncertainty": "none", "statistic": RANKED_BY}
        rows = [{**nothing, "backbone": name} for name in backbones]
        return _Section(common, copies=copies, rows=rows)
    metrics = list(dict.fromkeys(fields[name].metric for name in ranked))
    imputed = {
        name: ";".join(itertools.compress(ranked, column))
        for name, column in zip(backbones, table.imputed.T, strict=True)
    }
    exact = _exact_rows(given, backbones, asked, cells)
    return _Section(common, Scored(table, backbones, metrics), imputed, copies, exact=exact)


def _with_copies(rows: list[dict], copies: dict[str, str]) -> list[dict]:
    """Add to `rows` those of each copy, repeated from the backbone that it was ranked as."""
    return rows + [
        {**row, "backbone": copy}
        for copy, first in sorted(copies.items())
        for row in rows
        if row["backbone"] == first
    ]


def _exact_rows(given: tuple, backbones: list[str], asked: list[str], cells: Cells) -> list[dict]:
    """The rows of the ranking of exact cells alone; none if all cells are exact."""
    values, higher, _ = given
    means = np.array([[_mean_of_seeds(seeds) for seeds in row] for row in values])
    found = cells.ranked_exactly(means * np.where(higher, 1, -1)[:, None], backbones, asked)
    if found is None:
        return []
    nothing = "" if found["ranks"] else "no dataset feeds these backbones exactly"
    about = {
        "statistic": "exact_mean_rank",
        "higher_is_better": False,
        "uncertainty": "none",
        "n_datasets": len(found["datasets"]),
        "datasets": ";".join(found["datasets"]),
        "note": nothing,
    }
    ranks = found["ranks"] or dict.fromkeys(backbones, (None, None))
    return [
        {**about, "backbone": name, "value": mean, "rank": rank}
        for name, (mean, rank) in ranks.items()
    ]


def _mean_of_seeds(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


_EMPTY = dict.fromkeys(Standings.names()) | {"note": ""}


def write_standings(
    tables: list[pa.Table], parquet_path, csv_path, metadata: dict, options: dict
) -> pa.Table:
    """Build the standings of score tables and write them as parquet and CSV.

    The metadata of the parquet file include the results of tests as ``tests``.

    Parameters
    ----------
    metadata : at least ``fingerprint``.
    options : ``groups``, pairs of a name and its datasets, ``ranking`` and ``comparison`` of the
        configuration; ``cells``, the argument of `Cells.of`.
    """
    ranking = Ranking(
        groups=dict(options["groups"]),
        confidence=options["comparison"]["confidence"],
        seed=options["comparison"]["seed"],
        **options["ranking"],
    )
    tests: list[dict] = []
    # derived backbones are not ranked: near-copies would shift the ranks of others
    derived = metadata.get("derived", ())
    tables = [one for one in tables if not (len(one) and one["backbone"][0].as_py() in derived)]
    table = build_standings(tables, ranking, tests, Cells.of(options.get("cells", ())))
    if left_out := metadata.get("left_out"):
        table = _with_reasons(table, left_out, ranking.groups)
    write_csv(csv_path, table)
    write_table(parquet_path, table, {**metadata, "tests": tests})
    return table


def _with_reasons(table: pa.Table, left_out: list[dict], groups: Mapping) -> pa.Table:
    """Add the column ``unfit``: backbones that do not fit datasets of a row, with reasons."""
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
