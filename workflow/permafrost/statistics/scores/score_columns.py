"""The columns of a table of scores, in their order, and their types."""

from __future__ import annotations

import pyarrow as pa

COLUMNS = {
    "dataset": pa.string(),
    "backbone": pa.string(),
    "probe": pa.string(),
    "kind": pa.string(),
    "seed": pa.int64(),
    "task": pa.string(),
    "metric": pa.string(),
    "class": pa.string(),
    "setting": pa.string(),
    "value": pa.float64(),
    "lower": pa.float64(),
    "upper": pa.float64(),
    "confidence": pa.float64(),
    "method": pa.string(),
    "resamples": pa.int64(),
    "n_undefined": pa.int64(),
    "n_draws": pa.int64(),
    "draw_std": pa.float64(),
    "unit": pa.string(),
    "n_units": pa.int64(),
    "n_test": pa.int64(),
    "n_train": pa.int64(),
    "n_val": pa.int64(),
    "feature_dim": pa.int64(),
    "primary": pa.bool_(),
    "higher_is_better": pa.bool_(),
    "split_method": pa.string(),
    "spatially_random": pa.bool_(),
    "gates": pa.string(),
    "settings": pa.string(),
    "bootstrap_seed": pa.int64(),
    "fingerprint": pa.string(),
    "backbone_fingerprint": pa.string(),
}


def score_table_of(rows: list[dict]) -> pa.Table:
    """A table of rows that have a value for each of `COLUMNS`."""
    return pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}
    )
