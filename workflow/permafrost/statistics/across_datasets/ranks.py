"""Ranks of backbones: of every score, and of each dataset's mean over seeds, averaged over datasets.

A score is ranked within its dataset, probe, metric and seed (column ``rank``). The mean rank is
over datasets: a backbone's value on a dataset is its mean over seeds, and that is what is ranked
there. Ranking each seed and averaging the ranks would tell a backbone that wins narrowly twice and
loses clearly once from its opposite by what the seeds do, not by how good it is.

A rank says who is ahead, not by how much; but unlike scores it can be averaged over datasets of
different difficulty and metric without choosing a scale. It depends on who takes part: adding a
backbone can move the ranks of others, so ranks are comparable within one leaderboard only.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError

FIELD = ("dataset", "probe", "setting", "metric", "seed")


def mean_tied_ranks(values, higher_is_better: bool = True) -> np.ndarray:
    """(N,) ranks from 1 (best); ties share the mean of their places; NaN has no rank (NaN)."""
    values = np.asarray(values, np.float64)
    ranks = np.full(values.shape, np.nan)
    defined = ~np.isnan(values)
    keys = -values[defined] if higher_is_better else values[defined]
    _, place, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    # a tie of s values that ends at place e shares the mean of e - s + 1 .. e
    ranks[defined] = (np.cumsum(sizes) - (sizes - 1) / 2)[place]
    return ranks


def add_ranks(table: pa.Table) -> pa.Table:
    """`table` of score rows with a column ``rank``: per dataset, probe, setting, metric and seed.

    Rows of single classes, rows whose value is undefined, and rows of which neither more nor less is
    better (``higher_is_better`` is null: measures of features) have no rank (null).

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
        for rows in same_rows(part, FIELD):
            _refuse_twice(part, rows)
            ranks[overall[rows]] = mean_tied_ranks(values[rows], bool(higher[rows[0]]))
    return table.append_column("rank", pa.array(ranks, pa.float64(), mask=np.isnan(ranks)))


def add_mean_ranks(table: pa.Table) -> pa.Table:
    """`table` with a column ``mean_rank``: per probe and backbone, of the primary metric.

    It is null for a backbone that lacks a result that another backbone has under this probe;
    `missing_results` names those.
    """
    means = {(row["probe"], row["backbone"]): row["mean_rank"] for row in mean_rank_rows(table)}
    probes, backbones = (table.column(name).to_pylist() for name in ("probe", "backbone"))
    column = [means.get(key) for key in zip(probes, backbones, strict=True)]
    return table.append_column("mean_rank", pa.array(column, pa.float64()))


def mean_rank_rows(table: pa.Table) -> list[dict]:
    """Rows ``probe, backbone, mean_rank, n_datasets, missing``, best first within each probe.

    The mean over datasets of the rank of a backbone's mean over seeds. Where a backbone's
    ``missing`` names a dataset without any of its seeds, the others were ranked there in a smaller
    field; where it names some of the seeds, the backbone was ranked by the others.
    """
    results = primary_results(table, "value")
    higher = _directions(table)
    rows = []
    for probe in sorted({key[0] for key in results}):
        found = per_backbone(results, probe)
        places: dict[str, list[float]] = {backbone: [] for backbone, _, _ in found}
        for dataset in sorted({name for _, by_dataset, _ in found for name in by_dataset}):
            field = [backbone for backbone, by_dataset, _ in found if dataset in by_dataset]
            # fsum does not depend on the order, so that the same scores from other seeds tie
            means = [math.fsum(s[dataset]) / len(s[dataset]) for _, s, _ in found if dataset in s]
            ranks = mean_tied_ranks(means, higher[probe, dataset])
            for backbone, rank in zip(field, ranks.tolist(), strict=True):
                places[backbone].append(rank)
        for backbone, by_dataset, missing in found:
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
    """``backbone under probe: dataset, seed s`` for every result that others have and one lacks.

    A result whose primary metric is undefined counts as missing.
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
        found = results.setdefault((probe, backbone), {})
        if (dataset, seed) in found:
            raise _twice(backbone, dataset, probe, seed)
        # undefined is kept as a key, so that a test set that nobody could be scored on is seen too
        found[dataset, seed] = np.nan if value is None else value
    return results


def per_backbone(results: dict, probe: str) -> list[tuple[str, dict[str, list[float]], list[str]]]:
    """(backbone, {dataset: values over seeds}, names of what it lacks) for each under `probe`."""
    of_probe = {backbone: found for (name, backbone), found in results.items() if name == probe}
    expected = sorted({combination for found in of_probe.values() for combination in found})
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


def _directions(table: pa.Table) -> dict[tuple, bool]:
    """(probe, dataset) to whether more is better there, of the primary metric."""
    names = ("probe", "dataset", "primary", "higher_is_better")
    lists = (table.column(name).to_pylist() for name in names)
    return {
        (probe, dataset): higher
        for probe, dataset, primary, higher in zip(*lists, strict=True)
        if primary
    }


def same_rows(table: pa.Table, columns) -> list[np.ndarray]:
    """Row numbers of each combination of values of `columns`; null is a value like others."""
    codes = np.zeros(len(table), np.int64)
    for name in columns:
        column = table.column(name).combine_chunks().dictionary_encode("encode")
        own = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # renumbered at every step, so that the product of many columns cannot overflow
        codes = np.unique(codes * len(column.dictionary) + own, return_inverse=True)[1]
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
