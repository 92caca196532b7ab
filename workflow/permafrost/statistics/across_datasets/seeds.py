"""How much a score hangs on the seed of its probe: mean and standard deviation over seeds.

This is a second kind of uncertainty, beside the interval of a row: the interval says what another
test set might have given to these very predictions, the spread what another seed would have given
on this test set. Neither contains the other.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from permafrost.statistics.across_datasets.ranks import same_rows

_SAME = ("dataset", "backbone", "probe", "setting", "metric", "class")


def add_seed_spread(table: pa.Table) -> pa.Table:
    """`table` of score rows with the columns ``n_seeds``, ``seed_mean`` and ``seed_std``.

    They are the same in all rows of one dataset, backbone, probe, setting, metric and class, and count the
    seeds for which the value is defined: ``n_seeds`` is 0 and ``seed_mean`` null where there is
    none. ``seed_std`` has n - 1 in its denominator and is null for fewer than two seeds. A probe
    that draws nothing has the same value for every seed, and a spread of 0.
    """
    values = np.array(
        [np.nan if value is None else value for value in table.column("value").to_pylist()],
        np.float64,
    )
    counts = np.zeros(len(table), np.int64)
    means, spreads = np.full(len(table), np.nan), np.full(len(table), np.nan)
    for rows in same_rows(table, _SAME):
        defined = values[rows][~np.isnan(values[rows])]
        counts[rows] = len(defined)
        if len(defined):
            means[rows] = defined.mean()
        if len(defined) > 1:
            spreads[rows] = defined.std(ddof=1)
    table = table.append_column("n_seeds", pa.array(counts, pa.int64()))
    for name, column in (("seed_mean", means), ("seed_std", spreads)):
        table = table.append_column(name, pa.array(column, pa.float64(), mask=np.isnan(column)))
    return table
