"""Ranks of backbones over datasets, the spread of scores over seeds, and Pareto fronts of cost and score.

A score is ranked within its dataset, probe, metric and seed (column ``rank``). The mean rank is
over datasets: a backbone's value on a dataset is its mean over seeds, and these means are ranked.
Averaging the ranks of single seeds instead would treat two narrow wins and one clear loss like two
wins.

A rank ignores how large differences are. But unlike scores, ranks can be averaged over datasets of
different difficulty and metric without choosing a scale. Ranks depend on the set of backbones:
adding one can change the ranks of others, so ranks are comparable within one leaderboard only.

The spread over seeds and the interval of a row measure different uncertainty. The interval shows
how the value would vary with another test set for the same predictions, the spread how it would
vary with another seed on this test set. Neither includes the other.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from permafrost.core.errors import PermafrostError

FIELD = ("dataset", "probe", "setting", "metric", "seed")


def mean_tied_ranks(values, higher_is_better: bool = True) -> np.ndarray:
    """(N,) ranks from 1 (best); ties share their mean rank; NaN stays NaN."""
    values = np.asarray(values, np.float64)
    ranks = np.full(values.shape, np.nan)
    defined = ~np.isnan(values)
    keys = -values[defined] if higher_is_better else values[defined]
    _, place, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    # a tie of s values that ends at place e gets the mean of e - s + 1 .. e
    ranks[defined] = (np.cumsum(sizes) - (sizes - 1) / 2)[place]
    return ranks


def ranks_counted_once(values, higher_is_better: bool, ids) -> np.ndarray:
    """`mean_tied_ranks` with rows of the same id and value counted once, as one place; rows without
    id stay separate."""
    values = np.asarray(values, np.float64)
    pairs = enumerate(zip(ids, values.tolist(), strict=True))
    keys = [place if one is None else (one, value) for place, (one, value) in pairs]
    firsts: dict = {}
    for place, key in enumerate(keys):
        firsts.setdefault(key, place)
    ranks = mean_tied_ranks(values[list(firsts.values())], higher_is_better)
    found = dict(zip(firsts, ranks, strict=True))
    return np.array([found[key] for key in keys])


def kendall_tau(a, b) -> float:
    """Kendall's τ-b of two (N,) orders, corrected for ties; NaN if either is constant.

    Kendall 1945, "The treatment of ties in ranking problems". Same as `scipy.stats.kendalltau`,
    whose import takes longer than the rest of a page.
    """
    above = np.triu_indices(len(a), 1)
    signs_a, signs_b = (
        np.sign(np.subtract.outer(one, one))[above] for one in (np.asarray(a), np.asarray(b))
    )
    untied = np.count_nonzero(signs_a) * np.count_nonzero(signs_b)
    return float(signs_a @ signs_b / math.sqrt(untied)) if untied else math.nan


def add_ranks(table: pa.Table) -> pa.Table:
    """`table` of score rows with a column ``rank``: per dataset, probe, setting, metric and seed.

    With a column ``input_id``, equal values with the same id are one measurement and count once.

    Rows of single classes, rows whose value is undefined, and rows without a preferred direction
    (``higher_is_better`` is null: measures of features) have no rank (null).

    Raises
    ------
    PermafrostError : a backbone occurs twice for the same dataset, probe, metric and seed.
    """
    ranks = np.full(len(table), np.nan)
    ranked = [table.column("class").is_null(), table.column("higher_is_better").is_valid()]
    overall = np.flatnonzero(np.logical_and(*(column.to_numpy() for column in ranked)))
    if overall.size:
        part = table.take(overall)
        values = part.column("value").to_numpy()
        higher = part.column("higher_is_better").to_numpy(zero_copy_only=False)
        ids = _ids(part)
        for rows in same_rows(part, FIELD):
            _refuse_twice(part, rows)
            higher_first, of_rows = bool(higher[rows[0]]), [ids[row] for row in rows]
            ranks[overall[rows]] = ranks_counted_once(values[rows], higher_first, of_rows)
    return table.append_column("rank", pa.array(ranks, pa.float64(), mask=np.isnan(ranks)))


def add_mean_ranks(table: pa.Table, without: Collection[str] = ()) -> pa.Table:
    """`table` with a column ``mean_rank``: per probe and backbone, of the primary metric.

    The datasets `without` do not count.

    It is null for a backbone that lacks a result that another backbone has under this probe;
    `missing_results` lists these.
    """
    aside = pc.is_in(table["dataset"], pa.array(list(without), pa.string()))
    counted = mean_rank_rows(table.filter(pc.invert(aside)))
    means = {(row["probe"], row["backbone"]): row["mean_rank"] for row in counted}
    probes, backbones = (table.column(name).to_pylist() for name in ("probe", "backbone"))
    column = [means.get(key) for key in zip(probes, backbones, strict=True)]
    return table.append_column("mean_rank", pa.array(column, pa.float64()))


def mean_rank_rows(table: pa.Table) -> list[dict]:
    """Rows ``probe, backbone, mean_rank, n_datasets, missing``, best first within each probe.

    The mean over datasets of the rank of a backbone's mean over seeds. If ``missing`` lists a
    dataset of which a backbone lacks all seeds, fewer backbones were ranked there; if it lists some
    of the seeds, the backbone was ranked by the others.
    """
    results = primary_results(table, "value")
    higher, ids = _directions(table), dict(zip(*_cells_of(table), strict=True))
    rows = []
    for probe in sorted({key[0] for key in results}):
        backbones = per_backbone(results, probe)
        places: dict[str, list[float]] = {backbone: [] for backbone, _, _ in backbones}
        for dataset in sorted({name for _, by_dataset, _ in backbones for name in by_dataset}):
            field = [backbone for backbone, by_dataset, _ in backbones if dataset in by_dataset]
            # fsum does not depend on the order, so equal scores in another order of seeds tie
            means = [
                math.fsum(s[dataset]) / len(s[dataset]) for _, s, _ in backbones if dataset in s
            ]
            same = [ids[dataset, backbone] for backbone in field]
            ranks = ranks_counted_once(means, higher[probe, dataset], same)
            for backbone, rank in zip(field, ranks.tolist(), strict=True):
                places[backbone].append(rank)
        for backbone, by_dataset, missing in backbones:
            complete = not missing and by_dataset
            rows.append(
                {
                    "probe": probe,
                    "backbone": backbone,
                    "mean_rank": float(np.mean(places[backbone])) if complete else None,
                    "n_datasets": len(by_dataset),
                    "missing": missing,
                }
            )
    return sorted(rows, key=lambda row: (row["probe"], row["mean_rank"] or np.inf, row["backbone"]))


def missing_results(table: pa.Table) -> list[str]:
    """``backbone under probe: dataset, seed s`` for results that one lacks and others have.

    A result with an undefined primary metric counts as missing.
    """
    results = primary_results(table, "value")
    return [
        f"{backbone} under {probe}: {what}"
        for probe in sorted({key[0] for key in results})
        for backbone, _, missing in per_backbone(results, probe)
        for what in missing
    ]


def primary_results(table: pa.Table, column: str) -> dict[tuple, dict[tuple, float]]:
    """(probe, backbone) to {(dataset, seed): value of `column`}, of defined primary rows."""
    primary = np.flatnonzero(table.column("primary").to_numpy(zero_copy_only=False))
    names = ("probe", "backbone", "dataset", "seed", column)
    lists = [table.column(name).take(primary).to_pylist() for name in names]
    results: dict[tuple, dict[tuple, float]] = {}
    for probe, backbone, dataset, seed, value in zip(*lists, strict=True):
        by_dataset = results.setdefault((probe, backbone), {})
        if (dataset, seed) in by_dataset:
            raise _twice(backbone, dataset, probe, seed)
        # keep keys of undefined values, so that a test set without any score is visible too
        by_dataset[dataset, seed] = np.nan if value is None else value
    return results


def per_backbone(results: dict, probe: str) -> list[tuple[str, dict[str, list[float]], list[str]]]:
    """(backbone, {dataset: values over seeds}, missing results) for each under `probe`."""
    of_probe = {backbone: scores for (name, backbone), scores in results.items() if name == probe}
    expected = sorted({combination for scores in of_probe.values() for combination in scores})
    rows = []
    for backbone in sorted(of_probe):
        by_dataset: dict[str, list[float]] = {}
        missing = []
        for dataset, seed in expected:
            value = of_probe[backbone].get((dataset, seed), np.nan)
            if np.isnan(value):
                missing.append(f"{dataset}, seed {seed}")
            else:
                by_dataset.setdefault(dataset, []).append(value)
        rows.append((backbone, by_dataset, missing))
    return rows


def _ids(table: pa.Table) -> list[str | None]:
    named = "input_id" in table.column_names
    return table.column("input_id").to_pylist() if named else [None] * len(table)


def _cells_of(table: pa.Table) -> tuple[list[tuple[str, str]], list[str | None]]:
    columns = (table.column(name).to_pylist() for name in ("dataset", "backbone"))
    return list(zip(*columns, strict=True)), _ids(table)


def _directions(table: pa.Table) -> dict[tuple, bool]:
    """(probe, dataset) to whether higher is better for the primary metric."""
    names = ("probe", "dataset", "primary", "higher_is_better")
    lists = (table.column(name).to_pylist() for name in names)
    return {
        (probe, dataset): higher
        for probe, dataset, primary, higher in zip(*lists, strict=True)
        if primary
    }


def same_rows(table: pa.Table, columns) -> list[np.ndarray]:
    """Row numbers of each combination of values of `columns`; null counts as a value."""
    codes = np.zeros(len(table), np.int64)
    for name in columns:
        column = table.column(name).combine_chunks().dictionary_encode("encode")
        numbers = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # renumber at every step, so that the product of many columns cannot overflow
        codes = np.unique(codes * len(column.dictionary) + numbers, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _refuse_twice(table: pa.Table, rows: np.ndarray) -> None:
    names = table.column("backbone").take(rows).to_pylist()
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        row = int(rows[names.index(name)])
        raise _twice(
            name, *(table.column(key)[row].as_py() for key in ("dataset", "probe", "seed"))
        )


def _twice(backbone, dataset, probe, seed) -> PermafrostError:
    return PermafrostError(
        f"the backbone {backbone!r} has two scores on {dataset!r} with the probe {probe!r}"
        f" and seed {seed}",
        remedy="give each score table once",
    )


_SAME = ("dataset", "backbone", "probe", "setting", "metric", "class")


def add_seed_spread(table: pa.Table) -> pa.Table:
    """`table` of score rows with the columns ``n_seeds``, ``seed_mean`` and ``seed_std``.

    They are the same in all rows of one dataset, backbone, probe, setting, metric and class, and
    count the seeds for which the value is defined: ``n_seeds`` is 0 and ``seed_mean`` null if there
    is none. ``seed_std`` has n - 1 in its denominator and is null for fewer than two seeds. A
    deterministic probe has the same value for every seed, and a spread of 0.
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


def pareto_front(costs, scores, *, higher_is_better: bool = True) -> np.ndarray:
    """(N,) whether each candidate is on the Pareto front of low cost and good score.

    A candidate is off the front if another costs no more and scores no worse, and is strictly
    better in one of the two. Among equal costs the best score stays, among equal scores the lowest
    cost, and equal candidates all stay. A candidate with missing cost or score (NaN or None) is off
    the front and dominates none.

    Parameters
    ----------
    costs, scores : N numbers each; an infinite cost is a cost.
    """
    costs = np.array([np.nan if one is None else one for one in costs], np.float64)
    scores = np.array([np.nan if one is None else one for one in scores], np.float64)
    if costs.shape != scores.shape:
        raise ValueError(f"{costs.size} costs and {scores.size} scores")
    scores = scores if higher_is_better else -scores
    front = np.zeros(costs.shape, bool)
    known = np.flatnonzero(~(np.isnan(costs) | np.isnan(scores)))
    best = None
    # by cost, ties by best score: a later candidate must beat all before it
    for one in known[np.lexsort((-scores[known], costs[known]))]:
        if best is None or scores[one] > scores[best]:
            best = one
        front[one] = costs[one] == costs[best] and scores[one] == scores[best]
    return front
