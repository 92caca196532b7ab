"""How often equal backbones differ significantly, and how often a difference is detected, with 1 to 10 seeds."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.simulations._runs import answers, compared

TITLE = (
    "Share of test sets in which any two of equal backbones differ significantly / in which the first, better by 3 "
    "points (with groups 10), differs significantly from the second, by number of seeds; families of ten have a tenth "
    "of the draws"
)
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 2000, 10

SEEDS = (1, 2, 3, 5, 10)
# share of an item's variance that is the training's, and deviation of a training's level
TRAININGS = {
    "differ on some items": (0.2, 0.0),
    "differ on many items": (0.6, 0.0),
    "vary by .5 points": (0.2, 0.005),
    "vary by 2 points": (0.2, 0.02),
}
# backbones, items, groups
FAMILIES = {
    "2, 1,000 images": (2, 1000, 0),
    "2, 600 images in 15 groups": (2, 600, 15),
    "10, 1,000 images": (10, 1000, 0),
    "10, 600 images in 15 groups": (10, 600, 15),
}
_TOGETHER = 50


def table(draws: int, seed: int) -> str:
    """Rows: families and kinds of trainings; columns: numbers of seeds."""
    lines = ["| backbones | trainings |" + "".join(f" {number} |" for number in SEEDS)]
    lines.append("|---|---|" + "---|" * len(SEEDS))
    for place, (family, size) in enumerate(FAMILIES.items()):
        for kind, (words, trainings) in enumerate(TRAININGS.items()):
            cells = []
            for number in SEEDS:
                rng = np.random.default_rng((seed, place, kind, number))
                gap = 0.1 if size[2] else 0.03
                told = _pairs if size[0] == 2 else _families
                equal = told(rng, draws, number, *size, *trainings, 0.0)[0]
                found = told(rng, draws, number, *size, *trainings, gap)[1]
                cells.append(f" {equal:.3f} / {found:.2f} |")
            lines.append(f"| {family} | {words} |{''.join(cells)}")
    return "\n".join(lines)


def _pairs(rng, draws, runs, count, items, groups, noise, stray, gap) -> tuple[float, float]:
    """Share of test sets in which the two differ significantly, twice; p-values of one pair depend on no other."""
    apart = 0
    for first in range(0, draws, _TOGETHER):
        sets = min(_TOGETHER, draws - first)
        hits, index = answers(rng, sets, [0.8 + gap, 0.8], runs, items, groups, noise, stray)
        pairs = np.arange(2 * sets).reshape(sets, 2)
        apart += np.sum(compared(hits.reshape(runs, 2 * sets, items), index, pairs).p_value <= 0.05)
    return apart / draws, apart / draws


def _families(rng, draws, runs, count, items, groups, noise, stray, gap) -> tuple[float, float]:
    """Share of test sets in which any two differ significantly, and in which the first two are."""
    apart, draws = np.zeros(2), max(draws // 10, 1)
    pairs = np.array(list(itertools.combinations(range(count), 2)))
    levels = [0.8 + gap] + [0.8] * (count - 1)
    for _ in range(draws):
        hits, index = answers(rng, 1, levels, runs, items, groups, noise, stray)
        p = compared(hits[:, 0], index, pairs).p_adjusted
        apart += p.min() <= 0.05, p[0] <= 0.05
    return tuple(apart / draws)
