"""Merge the seeds of an evaluation into one line: mean, spread, and an interval for both sources.

- The spread is the standard deviation over seeds (denominator n - 1): how much training with
  another seed changes the value on the same test set.
- The interval shows how much the mean would vary with another test set and other seeds. The part of
  the items comes from the means of the seeds' limits: the standard error of a mean is at most the
  mean of the standard errors, and equal to it if all seeds err on the same images, so the interval
  is conservative. The variance of the mean over seeds is added, with Satterthwaite's degrees of
  freedom: two or three seeds that vary more than test items do carry little information.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from permafrost.core.leakage import CLEAN
from permafrost.metrics.tasks import metric_of, primary_metric
from permafrost.statistics.across_datasets.ranks import ranks_counted_once
from permafrost.statistics.leaderboard.rows import finite, gates_of
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile

# degrees of freedom beyond which t equals the normal to five digits
_NORMAL = 1e5
_FIELD = ("dataset", "probe", "metric", "class")  # lines are ranked within these
_LINE = (*_FIELD, "backbone")


def merge_seeds(rows: Iterable[dict]) -> list[dict]:
    """One line per dataset, probe, backbone, metric and class, in the order of their first rows.

    Parameters
    ----------
    rows : of the leaderboard, with ``seed_mean`` and ``seed_std``.

    Returns
    -------
    Rows with the keys of the leaderboard and ``seeds`` (ascending, without seeds whose value is
    undefined unless all are). With several seeds, ``value`` is their mean, ``lower`` and ``upper``
    include items and seeds, ``gates`` are those of any seed, ``rank`` ranks the mean among these
    lines (as `statistics.across_datasets.ranks` does for the mean rank), and ``seed`` is None. With
    one seed, its row is unchanged and ``seed_std`` is None.
    """
    by_line: dict[tuple, list[dict]] = {}
    for row in rows:
        by_line.setdefault(tuple(row[name] for name in _LINE), []).append(row)
    lines = [
        _merge(sorted(rows_of_line, key=lambda row: row["seed"]))
        for rows_of_line in by_line.values()
    ]
    fields: dict[tuple, list[dict]] = {}
    for line in lines:
        fields.setdefault(tuple(line[name] for name in _FIELD), []).append(line)
    for field in fields.values():
        if any(line["seed"] is None for line in field):
            _rank(field)
    return lines


def clean_lines(rows: Iterable[dict]) -> dict[tuple[str, str, str], dict]:
    """(dataset, probe, backbone) to the primary line on test images without leakage, if any."""
    lines = merge_seeds(
        row
        for row in rows
        if row["setting"] == CLEAN
        and row["class"] is None
        and row["metric"] == primary_metric(row["task"])
    )
    return {(line["dataset"], line["probe"], line["backbone"]): line for line in lines}


def _merge(rows: list[dict]) -> dict:
    rows = [row for row in rows if finite(row["value"])] or rows[:1]
    line = {**rows[0], "seeds": [row["seed"] for row in rows]}
    if len(rows) == 1:
        return {**line, "seed_std": None}
    return {
        **line,
        "seed": None,
        "value": rows[0]["seed_mean"],
        **_limits(rows),
        "gates": ";".join(sorted({gate for row in rows for gate in gates_of(row)})),
    }


def _limits(rows: list[dict]) -> dict[str, float]:
    """``lower`` and ``upper`` of the mean over seeds."""
    lower, upper = (sum(row[key] for row in rows) / len(rows) for key in ("lower", "upper"))
    first, half = rows[0], (upper - lower) / 2
    of_seeds = first["seed_std"] ** 2 / len(rows) if finite(first["seed_std"]) else 0.0
    # with the gate `one_unit` the interval is a point
    if not (of_seeds > 0 and half > 0):
        return {"lower": lower, "upper": upper}
    of_items = (half / normal_quantile(first["confidence"])) ** 2
    df = (of_items + of_seeds) ** 2 / of_seeds**2 * (len(rows) - 1)
    quantile = float(t_quantile(first["confidence"], min(df, _NORMAL)))
    factor = quantile * math.sqrt(of_items + of_seeds) / half
    value, known = first["seed_mean"], metric_of(first["metric"])
    wider = [value - factor * (value - lower), value + factor * (upper - value)]
    # another setting may be a difference of two, which the metric's range does not bound
    if first["setting"] in (None, CLEAN):
        wider = [max(wider[0], known.lowest), min(wider[1], known.highest)]
    return {"lower": wider[0], "upper": wider[1]}


def _rank(lines: list[dict]) -> None:
    values = [line["value"] if finite(line["value"]) else math.nan for line in lines]
    ids = [line.get("input_id") for line in lines]
    ranks = ranks_counted_once(values, lines[0]["higher_is_better"], ids)
    for line, rank in zip(lines, ranks.tolist(), strict=True):
        line["rank"] = rank if line["class"] is None and finite(rank) else None
