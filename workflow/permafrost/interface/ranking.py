"""Rank any leaderboard in Python."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd

from permafrost.core.errors import PermafrostError
from permafrost.data.sources.table_files import Cell, cell_text
from permafrost.interface.frames import Figures
from permafrost.statistics.leaderboard.given_tables import read_given
from permafrost.statistics.options import RankingSettings


def rank(
    table: pd.DataFrame | str | os.PathLike,
    *,
    where: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    lower_is_better: Collection[str] = (),
    missing: str = RankingSettings.missing,
    baseline: str | None = None,
    complete: bool = False,
    probe: str | None = None,
    duplicates: str = "refuse",
    seed: int = 0,
) -> pd.DataFrame:
    """Standings of any leaderboard: which backbones are best over its datasets, and which ranks can be told apart.

    Parameters
    ----------
    table : a row per backbone, named in the first column or by the index, and a column per dataset; or a row per
        score with the columns ``backbone`` (or ``model``), ``dataset`` (or ``task``), ``value`` (or ``score``), and
        possibly ``probe, seed, metric, lower, upper``. Or a CSV or parquet file of such a table, or published results
        of torchgeo-bench or GEO-Bench-2.
    where : column to value: only these rows. without : datasets or columns that are left out.
    lower_is_better : datasets or metrics with errors instead of scores.
    missing : ``common`` ranks the datasets with scores of all backbones, ``worst`` and ``baseline`` fill them in.
    baseline : backbone that gains are relative to.
    complete : leave out backbones without a score on every dataset. probe : only this one, or method of published
        results; by default each is ranked by itself.
    duplicates : of published results, ``refuse``, ``first`` or ``last`` of two values of one configuration.

    Returns
    -------
    The rows of `Results.standings`, docs/ranking.md: ``statistic`` (``mean_rank``, ``probability_best``, …), ``value,
    lower, upper``; ``rank_low, rank_high``, the ranks that are jointly possible; ``letters``, shared by backbones that
    do not differ significantly. ``attrs["said"]`` lists what was made of the table.

    Raises
    ------
    PermafrostError : a cell that is not a score, two scores of one backbone on a dataset, unknown names, nothing to
        rank.

    Examples
    --------
    >>> import pandas as pd, permafrost as pf
    >>> scores = {"a": [0.9, 0.8, 0.9, 0.7], "b": [0.8, 0.7, 0.8, 0.6], "c": [0.1, 0.2, 0.1, 0.3]}
    >>> board = pf.rank(pd.DataFrame(scores, index=["sea", "ice", "wood", "town"]).T)
    >>> board[board.statistic == "mean_rank"].sort_values("rank")[["backbone", "value"]].to_numpy().tolist()
    [['a', 1.0], ['b', 2.0], ['c', 3.0]]
    """
    source: Path | dict[str, list[Cell]]
    if isinstance(table, pd.DataFrame):
        frame = table
        if isinstance(frame.index, pd.MultiIndex) or isinstance(frame.columns, pd.MultiIndex):
            raise PermafrostError(
                "the data frame has an index or columns of several levels",
                remedy="use reset_index(), and give columns one name each",
            )
        names = [str(name) for name in frame]
        cells = [frame.iloc[:, place] for place in range(len(names))]
        if not _counts(frame):
            names.insert(0, str(frame.index.name or "backbone"))
            cells.insert(0, frame.index.to_series())
        if len({*names}) < len(names):
            raise PermafrostError(
                f"two columns of the data frame have the same name: {', '.join(names)}",
                remedy="rename one; the index is a column, too",
            )
        source = {
            name: [None if one is pd.NA else cell_text(one) for one in column.tolist()]
            for name, column in zip(names, cells, strict=True)
        }
    else:
        source = Path(table)
    given = read_given(
        source,
        where=where,
        without=without,
        lower_is_better=lower_is_better,
        duplicates=duplicates,
    ).of_probe(probe)
    given = given.complete() if complete else given
    found, _, said = given.rank(missing=missing, baseline=baseline, seed=seed)
    board = Figures(found.to_pandas())
    board.attrs["said"] = [*given.said, *said]
    return board


def _counts(frame: pd.DataFrame) -> bool:
    """Whether the index only counts rows, possibly of a selection."""
    if isinstance(frame.index, pd.RangeIndex):
        return True
    integers = frame.index.name is None and pd.api.types.is_integer_dtype(frame.index)
    return integers and len(frame.select_dtypes("number").columns) < len(frame.columns)
