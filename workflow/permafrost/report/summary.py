"""One row per probe and backbone: how it did over all datasets, as CSV."""

from __future__ import annotations

import pyarrow as pa

from permafrost.statistics.aggregate import aggregate_scores

from .leaderboard import write_csv

_TYPES = {
    "probe": pa.string(),
    "backbone": pa.string(),
    "mean_rank": pa.float64(),
    "mean": pa.float64(),
    "mean_lower": pa.float64(),
    "mean_upper": pa.float64(),
    "iqm": pa.float64(),
    "iqm_lower": pa.float64(),
    "iqm_upper": pa.float64(),
    "n_datasets": pa.int64(),
    "missing": pa.string(),
    "normalised": pa.bool_(),
    "confidence": pa.float64(),
    "resamples": pa.int64(),
    "bootstrap_seed": pa.int64(),
}


def write_summary(leaderboard: pa.Table, path, **options) -> None:
    """Write `build_summary` as CSV; its columns are those of ``summary.schema.yaml``."""
    write_csv(path, build_summary(leaderboard, **options))


def build_summary(
    leaderboard: pa.Table, *, resamples: int, confidence: float, seed: int
) -> pa.Table:
    """Mean rank, mean and interquartile mean of the primary metric over datasets.

    Parameters
    ----------
    leaderboard : the leaderboard's rows, with ranks.
    resamples, confidence, seed : of the intervals, which resample datasets (see
        `statistics.aggregate`); with one dataset there are none.
    """
    rows = aggregate_scores(leaderboard, resamples=resamples, confidence=confidence, seed=seed)
    for row in rows:
        row["missing"] = ";".join(row["missing"])
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in _TYPES.items()}
    return pa.table(columns)
