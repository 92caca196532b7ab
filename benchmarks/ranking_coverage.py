"""How often intervals over datasets hold the truth, and how often equal backbones differ, on made-up tables of scores.

    envs/run python benchmarks/ranking_coverage.py [--tables 300] [--datasets 5,12,30] [--parts intervals,tests] \
        [--drawn both,datasets,items] [--seed 0] [--json FILE]

Six backbones have scores near 0.75 whose test sets give them a standard error of 0.02, half of whose variance all
backbones of a dataset share. Two worlds: in `datasets`, each table has other datasets, drawn from endless ones, and
other test items; in `items`, datasets stay and only test items are others. Backbones differ by `GAINS`, and stray from
these by `spread` from dataset to dataset.

There are two truths. `endless` is the statistic of endless test sets, and in the world `datasets` of endless datasets.
`alike` is its mean over tables of this size, with as many test items: noise of items moves ranks to the middle, so that
the two differ for ranks, wins, Elo and improvability. A table in Markdown is printed.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # many small products: threads cost more than they save

import numpy as np
from permafrost.statistics.across_datasets import draws, significance, standings
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.standings import interquartile_mean

DRAWS, PARTS, ALIKE = 300, 50, 2000
ERROR = 0.02
CONFIDENCE = 0.95
GAINS = np.array([0.0, 0.01, 0.02, 0.03, 0.05, 0.08])
EQUAL = np.zeros(6)
# world, what is drawn, what the world is called, gains, spread between datasets
CELLS = [
    ("datasets", "both", "spread 0.03", GAINS, 0.03),
    ("datasets", "both", "no spread", GAINS, 0.0),
    ("datasets", "datasets", "spread 0.03", GAINS, 0.03),
    ("items", "items", "spread 0.03", GAINS, 0.03),
    ("items", "items", "no spread", GAINS, 0.0),
    ("items", "items", "equal, no spread", EQUAL, 0.0),
]
NULLS = [
    ("datasets", "both", "equal, spread 0.03", EQUAL, 0.03),
    ("datasets", "both", "equal, no spread", EQUAL, 0.0),
    ("datasets", "datasets", "equal, spread 0.03", EQUAL, 0.03),
    ("items", "items", "equal, no spread", EQUAL, 0.0),
]


def _elo(values):
    return elo(standings.pairwise_wins(values))[0]


def _improvability(values):
    return standings.improvability(np.minimum(values, 1), np.ones(values.shape[-2]))


STATISTICS = {
    "mean_rank": (standings.mean_rank, (1, len(GAINS))),
    "win_rate": (standings.win_rate, (0, 1)),
    "mean": (lambda values: values.mean(axis=-2), (0, 1)),
    "iqm": (lambda values: interquartile_mean(values, axis=-2), (0, 1)),
    "gain": (lambda values: standings.mean_gain(values, 0), (-np.inf, np.inf)),
    "elo": (_elo, (-np.inf, np.inf)),
    "improvability": (_improvability, (0, 1)),
    # means again, of datasets that do not weigh the same
    "normalised_mean": (lambda values: values.mean(axis=-2), (-np.inf, np.inf)),
    "normalised_iqm": (lambda v: interquartile_mean(v, axis=-2), (-np.inf, np.inf)),
}
OF_ORDER = ("mean_rank", "win_rate", "elo")


def true_values(rng, datasets: int, gains, spread: float) -> np.ndarray:
    """(D, K + 1) of endless test sets, and in the last column the scale of the normalised scores."""
    level = np.clip(rng.normal(0.75, 0.06, (datasets, 1)), 0.55, 0.9)
    strayed = spread * rng.standard_normal((datasets, len(gains)))
    scale = rng.lognormal(0, 0.4, (datasets, 1))
    return np.concatenate([level - 0.05 + gains + strayed, scale], axis=1)


def noise_of(rng, shape) -> np.ndarray:
    """(…, D, K) of test sets, without their items."""
    *ahead, _ = shape
    shared = rng.standard_normal((*ahead, 1))
    return ERROR * np.sqrt(0.5) * (shared + rng.standard_normal(shape))


def table_of(rng, truth) -> draws.Scores:
    """Scores with items of what a test set of `PARTS` parts gives."""
    shape = (*truth.shape, PARTS)
    each = rng.standard_normal(shape) + rng.standard_normal((len(truth), 1, PARTS))
    each *= ERROR * np.sqrt(0.5 * PARTS)
    noise = each.mean(axis=-1)
    parts = tuple((each - noise[..., None]) / PARTS)
    return draws.Scores((truth + noise)[..., None], np.ones(len(truth), bool), parts)


def scaled(scores: draws.Scores, scale) -> draws.Scores:
    items = tuple(one * by for one, by in zip(scores.items, scale, strict=True))
    return draws.Scores(scores.values * scale[:, None, None], scores.higher, items)


def held(cell, datasets: int, *, tables: int, seed: int) -> list[dict]:
    """Share of the intervals that hold each truth, mean over backbones, per statistic."""
    world, uncertainty, name, gains, spread = cell
    rng = np.random.default_rng([seed, datasets])
    options = {"datasets": None if uncertainty == "items" else datasets, "confidence": CONFIDENCE}
    if world == "datasets":
        endless, alike = _truths_of_datasets(rng, datasets, gains, spread)
    found: dict[str, list] = {statistic: [] for statistic in STATISTICS}
    for number in range(tables):
        truth = true_values(rng, datasets, gains, spread)
        truth, scale = truth[:, :-1], truth[:, -1]
        if world == "items":
            endless, alike = _truths_of_items(rng, truth, scale)
        raw = table_of(rng, truth)
        for normal, scores in ((False, raw), (True, scaled(raw, scale))):
            drawn = draws.draw(scores, uncertainty, draws=DRAWS, seed=number)
            values = scores.oriented()
            for statistic, (compute, limits) in STATISTICS.items():
                if statistic.startswith("normalised") == normal:
                    bounds = draws.interval(
                        compute(values),
                        compute(drawn),
                        limits=limits,
                        of_order=statistic in OF_ORDER,
                        **options,
                    )
                    found[statistic].append(_holds(bounds, endless[statistic], alike[statistic]))
    rows = []
    for statistic, each in found.items():
        # over itself a gain is 0 and held always
        cases = np.array(each)[:, :, 1 if statistic == "gain" else 0 :]
        known = np.sum(~np.isnan(cases), axis=(0, 2))
        means = (np.nansum(cases, axis=(0, 2)) / np.where(known, known, np.nan)).tolist()
        named = dict(zip(("endless", "alike", "width"), means, strict=True))
        about = {"world": world, "drawn": uncertainty, "backbones": name, "datasets": datasets}
        rows.append({**about, "statistic": statistic, **named})
    return rows


def _holds(bounds, *truths) -> list:
    lower, upper = bounds
    rounding = 1e-9
    inside = [
        np.where(np.isnan(truth), np.nan, (lower - rounding <= truth) & (truth <= upper + rounding))
        for truth in truths
    ]
    return [*inside, upper - lower]


def _truths_of_datasets(rng, datasets: int, gains, spread: float) -> tuple[dict, dict]:
    endless = true_values(rng, 20_000, gains, spread)
    alike = np.stack([true_values(rng, datasets, gains, spread) for _ in range(ALIKE)])
    noisy = alike[..., :-1] + noise_of(rng, alike[..., :-1].shape)
    return _endless(endless[:, :-1], endless[:, -1]), _means_of(noisy, alike[..., -1])


def _truths_of_items(rng, truth, scale) -> tuple[dict, dict]:
    noisy = truth + noise_of(rng, (DRAWS, *truth.shape))
    return _endless(truth, scale), _means_of(noisy, scale)


def _endless(values, scale) -> dict:
    """Ratings without end, of backbones that win or lose everything, are no truth."""
    found = _all_of(values, scale)
    if elo(standings.pairwise_wins(values))[1]:
        found["elo"] = np.full(values.shape[-1], np.nan)
    return found


def _all_of(values, scale) -> dict:
    return {
        name: compute(values * scale[..., None] if name.startswith("normalised") else values)
        for name, (compute, _) in STATISTICS.items()
    }


def _means_of(values, scale) -> dict:
    return {name: found.mean(axis=0) for name, found in _all_of(values, scale).items()}


def differing(cell, datasets: int, *, tables: int, seed: int) -> dict:
    """Share of the tables of equal backbones in which any two differ significantly, or a test finds a difference."""
    world, uncertainty, name, gains, spread = cell
    rng = np.random.default_rng([seed, datasets, 1])
    options = {"datasets": None if uncertainty == "items" else datasets, "confidence": CONFIDENCE}
    counts: dict[str, int] = {}
    for number in range(tables):
        scores = table_of(rng, true_values(rng, datasets, gains, spread)[:, :-1])
        drawn, values = draws.draw(scores, uncertainty, draws=DRAWS, seed=number), scores.oriented()
        for statistic, sign in (("mean_rank", -1), ("mean", 1)):
            compute = STATISTICS[statistic][0]
            apart = draws.told_apart(
                sign * compute(values),
                sign * compute(drawn),
                of_order=statistic in OF_ORDER,
                alone=draws.drawn_alone(scores, uncertainty),
                **options,
            )
            counts[statistic] = counts.get(statistic, 0) + bool(apart.any())
        for test, p_value in tests_of(values).items():
            counts[test] = counts.get(test, 0) + (p_value <= 1 - CONFIDENCE)
    about = {"world": world, "drawn": uncertainty, "backbones": name, "datasets": datasets}
    return {**about, **{test: count / tables for test, count in counts.items()}}


def tests_of(values) -> dict[str, float]:
    """The smallest p-value of each test; Wilcoxon's against the first backbone, adjusted by Holm."""
    found = significance.friedman(values)
    return {
        "friedman": found.p_chi_square,
        "friedman_f": found.p_f,
        "nemenyi": significance.nemenyi(values).min(),
        "wilcoxon_holm": np.nanmin(significance.wilcoxon_against(values, 0)[1]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=300, help="made-up tables of each cell")
    parser.add_argument("--datasets", default="5,12,30", help="numbers of datasets")
    parser.add_argument("--parts", default="intervals,tests")
    parser.add_argument("--drawn", default="both,datasets,items", help="what intervals hold")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    options = {"tables": arguments.tables, "seed": arguments.seed}
    counts, parts = [int(count) for count in arguments.datasets.split(",")], arguments.parts
    results: dict[str, list] = {}
    if "intervals" in parts:
        results["intervals"] = [
            row
            for cell in CELLS
            if cell[1] in arguments.drawn.split(",")
            for count in counts
            for row in held(cell, count, **options)
        ]
    if "tests" in parts:
        results["tests"] = [differing(cell, count, **options) for cell in NULLS for count in counts]
    for rows in results.values():
        print_table(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


def written(value) -> str:
    if not isinstance(value, float):
        return str(value)
    return "–" if np.isnan(value) else f"{value:.3f}"


def print_table(rows: list[dict]) -> None:
    print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
    for row in rows:
        cells = [written(one) for one in row.values()]
        print(f"| {' | '.join(cells)} |")
    print(flush=True)


if __name__ == "__main__":
    main()
