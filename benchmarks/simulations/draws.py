"""How often intervals of means over draws of a training set hold the truth, and how often equal backbones differ."""

from __future__ import annotations

import numpy as np
from permafrost.statistics.predictions.settings import Draws, ScoredSetting
from permafrost.statistics.scores.bootstrap import bootstrap_scores

from benchmarks.simulations._runs import answers, compared

TITLE = (
    "Few-shot accuracy: share of 95 % intervals that hold the mean over all draws (a tenth of the test sets) / of test "
    "sets in which two equal backbones differ significantly, by number of training subsets"
)
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 2000, 10

DRAWS = (1, 2, 3, 5, 10)
# standard deviation of the accuracy from one training set to another
STRAYS = {
    "1 point": 0.01,
    "3 points": 0.03,
    "8 points, as of five samples per class": 0.08,
}
ITEMS, LEVEL, NOISE = 660, 0.5, 0.3
_TOGETHER = 50


def table(draws: int, seed: int) -> str:
    """Rows: how far draws stray; columns: numbers of draws."""
    lines = ["| subsets vary by |" + "".join(f" {number} |" for number in DRAWS)]
    lines.append("|---|" + "---|" * len(DRAWS))
    for place, (words, stray) in enumerate(STRAYS.items()):
        cells = []
        for number in DRAWS:
            rng = np.random.default_rng((seed, place, number))
            held = np.mean([_holds(rng, number, stray) for _ in range(max(draws // 10, 1))])
            cells.append(f" {held:.2f} / {_told_apart(rng, number, stray, draws):.3f} |")
        lines.append(f"| {words} |{''.join(cells)}")
    return "\n".join(lines)


def _holds(rng, number: int, stray: float) -> bool:
    hits, _ = answers(rng, 1, [LEVEL], number, ITEMS, 0, NOISE, stray)
    ids = np.array([f"{item:04}" for item in range(ITEMS)])
    answered = hits[:, 0, 0].astype(int)
    about = {
        "task": "classification",
        "classes": ["no", "yes"],
        "about": ScoredSetting("few", {}, 1, 1, []),
    }
    found = Draws(ids, None, np.ones(ITEMS, int), answered, **about)
    row = next(one for one in bootstrap_scores(found, seed=0) if one["metric"] == "accuracy")
    return row["lower"] <= LEVEL <= row["upper"]


def _told_apart(rng, number: int, stray: float, draws: int) -> float:
    apart = 0
    for first in range(0, draws, _TOGETHER):
        sets = min(_TOGETHER, draws - first)
        hits, index = answers(rng, sets, [LEVEL, LEVEL], number, ITEMS, 0, NOISE, stray)
        pairs = np.arange(2 * sets).reshape(sets, 2)
        found = compared(hits.reshape(number, 2 * sets, ITEMS), index, pairs, shared=True)
        apart += np.sum(found.p_value <= 0.05)
    return apart / draws
