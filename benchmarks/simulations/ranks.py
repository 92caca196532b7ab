"""Chances of being best over datasets: what is said, how often it is so, and Brier scores, beside drawn datasets.

The peer, "drawn", was the rule before the model: datasets drawn with replacement and test items within them, and the
share of the draws in which a backbone's mean rank is the best.

A backbone's score is the dataset's level + the backbone's effect (a deviation of 0.02) + the rest (0.03) + an error of
test items (0.02, half of its variance common to all). Right is who has the largest effect; of backbones without spread
each is right with 1 / their number.
"""

from __future__ import annotations

import numpy as np
from permafrost.statistics.across_datasets import draws as drawing
from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.chances import Measured, probability_of_rank, variances
from permafrost.statistics.across_datasets.hierarchical import posterior

TITLE = (
    "Chance of being best, said : so, by drawn datasets and by the model, and Brier scores of both"
)
DOCUMENT = "docs/simulations.md"
FULL, SMALL = 200, 1

EFFECT, REST, ERROR, PARTS = 0.02, 0.03, 0.02, 30
# backbones and datasets
SHAPES = [(2, 5), (6, 3), (6, 5), (6, 10), (6, 30), (20, 3), (20, 10)]
# of which every tenth table is made
LARGE = (100, 30)
WORLDS = (
    "normal",
    "heavy tails",
    "no spread between backbones",
    "clusters of three datasets",
    "unequal scales",
    "outlier datasets",
)
# tables that are held together
_TOGETHER = 60
_BINS = ((0.25, 0.75), (0.75, 1.01))


def table(draws: int, seed: int) -> str:
    """Rows: world, backbones and datasets; columns: two bins, the largest chance of each table, and Brier scores."""
    lines = [
        "| world | backbones × datasets | said .25–.75, drawn | model | said over .75, drawn | model"
        " | largest, drawn | model | Brier score, drawn | model |",
        "|" + "---|" * 10,
    ]
    cells = {}
    for shape in [*SHAPES, *[LARGE] * (draws >= 10)]:
        rng = np.random.default_rng((seed, *shape))
        count = max(draws // 10, 1) if shape == LARGE else draws
        cells[shape] = _chances(rng, shape, count)
    for at, world in enumerate(WORLDS):
        for (backbones, datasets), found in cells.items():
            right, drawn, model = (one[at] for one in found)
            pairs = [_bin(said, right, *ends) for ends in _BINS for said in (drawn, model)]
            pairs += [_largest(said, right) for said in (drawn, model)]
            pairs += [_short(np.sum((said - right) ** 2, axis=1).mean()) for said in (drawn, model)]
            lines.append(f"| {world} | {backbones} × {datasets} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def _chances(rng, shape: tuple[int, int], count: int) -> list[np.ndarray]:
    """(W, T, K) who is right, the chances by drawn datasets, and by the model."""
    made = [_tables(rng, world, count, *shape) for world in WORLDS]
    right, values, items = (np.concatenate(one) for one in zip(*made, strict=True))
    drawn = [_drawn(*one, seed) for seed, one in enumerate(zip(values, items, strict=True))]
    model = []
    for start in range(0, len(values), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        errors = [variances(_measured(*one)) for one in zip(values[part], items[part], strict=True)]
        found = posterior(values[part], np.array(errors), draws=2000, seed=start).effects
        model.append(np.mean(found == found.max(axis=2, keepdims=True), axis=1))
    ahead = (len(WORLDS), count, shape[0])
    return [np.reshape(one, ahead) for one in (right, drawn, np.concatenate(model))]


def _tables(rng, world: str, tables: int, backbones: int, datasets: int) -> tuple:
    """(T, K) who is right, (T, D, K) scores, (T, D, K, J) what parts of test sets contribute."""
    shape = (tables, datasets, backbones)
    effects = EFFECT * rng.standard_normal((tables, 1, backbones))
    rest = REST * rng.standard_normal(shape)
    scale = np.ones((tables, datasets, 1))
    right = (effects == effects.max(axis=2, keepdims=True))[:, 0].astype(float)
    if world == "heavy tails":
        rest = REST * rng.standard_t(3, shape) / np.sqrt(3)
    elif world == "no spread between backbones":
        effects, right = 0 * effects, np.full(right.shape, 1 / backbones)
    elif world == "clusters of three datasets":
        groups = -(-datasets // 3)
        shared = rng.standard_normal((tables, groups, backbones))[:, np.arange(datasets) % groups]
        rest = (rest + REST * shared) * np.sqrt(0.5)
    elif world == "unequal scales":
        scale = rng.lognormal(0, 0.8, (tables, datasets, 1))
    elif world == "outlier datasets":
        rest = rest * np.where(rng.random((tables, datasets, 1)) < 0.15, 6, 1)
    each = rng.standard_normal((*shape, PARTS)) + rng.standard_normal((tables, datasets, 1, PARTS))
    each *= ERROR * np.sqrt(PARTS / 2)
    noise = each.mean(axis=3)
    level = rng.normal(0.75, 0.06, (tables, datasets, 1))
    return right, level + scale * (effects + rest) + noise, (each - noise[..., None]) / PARTS


def _measured(values, items) -> Measured:
    here = np.ones(len(values), bool)
    return Measured(values[..., None], here, tuple(items), here)


def _drawn(values, items, seed: int) -> np.ndarray:
    """(K,) chances by the rule before the model."""
    scores = drawing.Scores(values[..., None], np.ones(len(values), bool), tuple(items))
    drawn = drawing.draw(scores, "both", draws=300, seed=seed)
    return probability_of_rank(standings.ranks_within(-standings.mean_rank(drawn)), 1)


def _bin(said, right, low: float, high: float) -> str:
    inside = (said >= low) & (said < high)
    if not inside.any():
        return "–"
    return f"{_short(said[inside].mean())} : {_short(right[inside].mean())} ({inside.sum()})"


def _largest(said, right) -> str:
    rows = np.arange(len(said))
    return f"{_short(said.max(axis=1).mean())} : {_short(right[rows, said.argmax(axis=1)].mean())}"


def _short(share: float) -> str:
    """``.84``, ``1.00``."""
    return f"{share:.2f}".removeprefix("0") if share < 0.995 else f"{share:.2f}"
