"""Several seeds of one evaluation as one line: mean, spread over seeds, and an interval.

The two say different things and are never added up:

- the interval says how far the value would move with another test set. Each seed has one of its
  own; the line has the mean of their lower and of their upper limits. The standard error of a mean is at most
  the mean of the standard errors, and equals it where all seeds err on the same images, which they nearly
  do; so the line's interval is about right, and too wide rather than too narrow. The interval
  of one seed would lie around that seed's value instead of around the mean.
- the spread is the standard deviation over seeds (denominator n - 1): how far a training
  with another seed moves the value on this same test set. Two or three seeds tell it roughly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from permafrost.report.values.rows import finite, gates_of
from permafrost.statistics.across_datasets.ranks import mean_tied_ranks

_FIELD = ("dataset", "probe", "metric", "class")  # where lines are ranked
_LINE = (*_FIELD, "backbone")


def merge_seeds(rows: Iterable[dict]) -> list[dict]:
    """One line per dataset, probe, backbone, metric and class, in the order of their first rows.

    Parameters
    ----------
    rows : of the leaderboard, with its ``seed_mean`` and ``seed_std``.

    Returns
    -------
    Rows with the keys of the leaderboard and ``seeds`` (ascending; seeds whose value is undefined are
    left out where another seed's is not). Where there are more, ``value`` is the mean over
    seeds, ``lower`` and ``upper`` are means of the seeds' limits, ``gates`` are those that any seed
    met, ``rank`` is that of the mean among the lines given (as `statistics.across_datasets.ranks` ranks for the
    mean rank), and ``seed`` is None. Where there is one, its row is unchanged and ``seed_std`` is None.
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


def _merge(rows: list[dict]) -> dict:
    rows = [row for row in rows if finite(row["value"])] or rows[:1]
    line = {**rows[0], "seeds": [row["seed"] for row in rows]}
    if len(rows) == 1:
        return {**line, "seed_std": None}
    return {
        **line,
        "seed": None,
        "value": rows[0]["seed_mean"],
        **{key: sum(row[key] for row in rows) / len(rows) for key in ("lower", "upper")},
        "gates": ";".join(sorted({gate for row in rows for gate in gates_of(row)})),
    }


def _rank(lines: list[dict]) -> None:
    values = [line["value"] if finite(line["value"]) else math.nan for line in lines]
    ranks = mean_tied_ranks(values, lines[0]["higher_is_better"])
    for line, rank in zip(lines, ranks.tolist(), strict=True):
        line["rank"] = rank if line["class"] is None and finite(rank) else None
