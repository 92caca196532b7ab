"""How often intervals of measures of features hold the measure's expectation, and how measures grow with rows.

Features are a mixture of six classes in 24 dimensions, whose scales fall as the root of their number. Groups share
most of their classes and have offsets of their own. The truth is the mean over very many sets of features of the same
size, as the interval is of the expectation at this number of rows.
"""

from __future__ import annotations

import numpy as np
from permafrost.metrics.representation import measures
from permafrost.statistics.measures.measured import measured
from permafrost.statistics.resampling.units import find_units

TITLE = "Coverage of 95 % intervals of feature metrics; the last columns are means by the number of rows"
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 300, 2

# rows and groups
SIZES = {
    "8 groups": (160, 8),
    "15 groups": (300, 15),
    "40 groups": (400, 40),
    "300 images": (300, 0),
}
GROWTH = (100, 300, 1000)
NAMES = (
    "uniformity",
    "rankme",
    "stable_rank",
    "nesum",
    "participation_ratio",
    "dimension_lpca",
    "dimension_two_nn",
    "dimension_mle",
    "alignment",
    "silhouette",
)
CLASSES, WIDTH, OFFSETS = 6, 24, 0.8


def table(draws: int, seed: int) -> str:
    """Rows: measures; columns: sizes, and means of ungrouped features of more and more rows."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, WIDTH + 1) ** -0.5
    centres = 1.5 * rng.normal(size=(CLASSES, WIDTH)) * scales
    shares = [_shares(rng, centres, scales, *size, draws) for size in SIZES.values()]
    # a mean needs fewer sets than a share
    means = [_means(rng, centres, scales, rows, max(2, draws // 20)) for rows in GROWTH]
    head = [*SIZES, *(f"{rows:,} rows" for rows in GROWTH)]
    lines = ["| measure | " + " | ".join(head) + " |", "|---" * (1 + len(head)) + "|"]
    for name in NAMES:
        cells = [f"{share[name]:.2f}" for share in shares] + [f"{mean[name]:.3g}" for mean in means]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _features(rng, centres, scales, rows: int, groups: int):
    """(N, d) features, (N,) labels, and (N,) names of groups or None."""
    labels = rng.integers(0, CLASSES, rows)
    if not groups:
        return centres[labels] + rng.normal(size=(rows, WIDTH)) * scales, labels, None
    group = np.arange(rows) % groups
    shared = rng.random(rows) < 0.6
    labels = np.where(shared, rng.integers(0, CLASSES, groups)[group], labels)
    offsets = OFFSETS * rng.normal(size=(groups, WIDTH)) * scales
    features = centres[labels] + rng.normal(size=(rows, WIDTH)) * scales + offsets[group]
    return features, labels, [f"group {one}" for one in group]


def _shares(rng, centres, scales, rows: int, groups: int, draws: int) -> dict[str, float]:
    bootstrap = {"resamples": 200, "confidence": 0.95, "seed": 0}
    found = {name: [] for name in NAMES}
    for _ in range(draws):
        features, labels, names = _features(rng, centres, scales, rows, groups)
        units = find_units(rows, sample_ids=[str(row) for row in range(rows)], groups=names)
        values = measures(features, labels, seed=0, units=units.index, names=NAMES)
        for name, row in measured(values, units, bootstrap, dataset="simulated").items():
            found[name].append((row["value"], row["lower"], row["upper"]))
    shares = {}
    for name, rows_found in found.items():
        value, lower, upper = np.array(rows_found).T
        shares[name] = float(np.mean((lower <= value.mean()) & (value.mean() <= upper)))
    return shares


def _means(rng, centres, scales, rows: int, draws: int) -> dict[str, float]:
    drawn = [
        measures(*_features(rng, centres, scales, rows, 0)[:2], seed=0, names=NAMES)
        for _ in range(draws)
    ]
    return {name: float(np.mean([one[name].value for one in drawn])) for name in NAMES}
