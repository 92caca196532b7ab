"""One row per probe and backbone: how it did over all datasets, as CSV."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa

from permafrost.core.errors import PermafrostError, first_line
from permafrost.report.tables.leaderboard import write_csv
from permafrost.statistics.across_datasets.aggregate import aggregate_scores
from permafrost.statistics.tables import read_columns, table_of

COLUMNS = read_columns(Path(__file__).with_name("summary_columns.json"))


def write_summary(leaderboard: pa.Table, path, **options) -> None:
    """Write `build_summary` as CSV; its columns are those of ``summary.schema.yaml``."""
    write_csv(path, build_summary(leaderboard, **options))


def read_summary(path) -> list[dict]:
    """The rows of a summary that `write_summary` wrote; what it left empty is None.

    Raises
    ------
    PermafrostError : the file is missing, or no summary.
    """
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(column_types=COLUMNS, include_columns=COLUMNS.names)
    try:
        return pyarrow.csv.read_csv(path, convert_options=options).to_pylist()
    except (OSError, pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise PermafrostError(
            f"the summary over datasets cannot be read ({first_line(error)})",
            where=path,
            remedy="delete the file and run snakemake again",
        ) from error


def build_summary(
    leaderboard: pa.Table, *, resamples: int, confidence: float, seed: int
) -> pa.Table:
    """Mean rank, mean and interquartile mean of the primary metric over datasets.

    ``n_seeds`` is the smallest number of seeds on a dataset. ``seed_std`` is the standard deviation
    of the mean over datasets when each of D datasets is trained on once, with seeds that know nothing of
    each other: sqrt(sum of the datasets' variances over seeds) / D. It is null where a dataset has
    one seed only, and 0 where chance plays no part.

    Parameters
    ----------
    leaderboard : the leaderboard's rows, with ranks and the spread over seeds.
    resamples, confidence, seed : of the intervals, which resample datasets (see
        `statistics.across_datasets.aggregate`); with one dataset there are none.
    """
    rows = aggregate_scores(leaderboard, resamples=resamples, confidence=confidence, seed=seed)
    spreads = _spreads(leaderboard)
    for row in rows:
        row |= _seeds(spreads[row["probe"], row["backbone"]], complete=not row["missing"])
        row["missing"] = ";".join(row["missing"])
    return table_of(rows, COLUMNS)


def _spreads(leaderboard: pa.Table) -> dict[tuple[str, str], dict[str, tuple[int, float | None]]]:
    """(probe, backbone) -> dataset -> number of seeds and standard deviation over them."""
    names = ("probe", "backbone", "dataset", "primary", "n_seeds", "seed_std")
    spreads: dict[tuple[str, str], dict[str, tuple[int, float | None]]] = {}
    columns = (leaderboard[name].to_pylist() for name in names)
    for probe, backbone, dataset, primary, count, spread in zip(*columns, strict=True):
        if primary:
            spreads.setdefault((probe, backbone), {})[dataset] = (count, spread)
    return spreads


def _seeds(by_dataset: dict[str, tuple[int, float | None]], *, complete: bool) -> dict:
    spreads = [spread for _, spread in by_dataset.values()]
    known = complete and None not in spreads
    return {
        "n_seeds": min(count for count, _ in by_dataset.values()),
        "seed_std": math.hypot(*spreads) / len(spreads) if known else None,
    }
