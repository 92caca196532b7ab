"""Whether differences as large as `detectable` says are found in four of five test sets, and what is said before."""

from __future__ import annotations

import itertools

import numpy as np
from permafrost.operate.estimate.found import DEVIATIONS
from permafrost.statistics.resampling.detectable import planned

from benchmarks.simulations._runs import answers, compared

TITLE = (
    "What can be found: `detectable` (median over pairs and test sets), the share of test sets in which a difference "
    "of that size is found, and what `permafrost plan` says before"
)
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 200, 1

# backbones, items, groups
CELLS = {
    "2 backbones, 1,000 images": (2, 1000, 0),
    "10 backbones, 1,000 images": (10, 1000, 0),
    "40 backbones, 1,000 images": (40, 1000, 0),
    "2 backbones, 15 groups": (2, 600, 15),
    "10 backbones, 15 groups": (10, 600, 15),
    "2 backbones, 8 groups": (2, 320, 8),
    "40 backbones, 8 groups": (40, 320, 8),
}
LEVEL, NOISE = 0.6, 0.2


def table(draws: int, seed: int) -> str:
    """Rows: test sets and families."""
    lines = ["| test set | detectable | found | planned |", "|---|---|---|---|"]
    for place, (name, (count, items, groups)) in enumerate(CELLS.items()):
        rng = np.random.default_rng((seed, place))
        size = (1, items, groups, NOISE, 0.0)
        pairs = np.array(list(itertools.combinations(range(count), 2)))
        needed = []
        for _ in range(draws):
            hits, index = answers(rng, 1, [LEVEL] * count, *size)
            needed.append(
                np.median(np.nan_to_num(compared(hits[:, 0], index, pairs).detectable, nan=9))
            )
        gap, found = float(np.median(needed)), 0
        if LEVEL + gap < 1:
            for _ in range(draws):
                hits, index = answers(rng, 1, [LEVEL + gap] + [LEVEL] * (count - 1), *size)
                found += compared(hits[:, 0], index, pairs).p_adjusted[0] <= 0.05
        unit = "group" if groups else "image"
        about = {"resamples": 2000, "confidence": 0.95, "deviation": DEVIATIONS[unit]}
        said = planned(groups or items, count, **about)
        known = f"{gap:.3f} | {found / draws:.2f}" if LEVEL + gap < 1 else "none | –"
        lines.append(
            f"| {name} | {known} | {said:.3f} |" if said < 1 else f"| {name} | {known} | none |"
        )
    return "\n".join(lines)
