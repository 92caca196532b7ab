"""Suspected labels where the truth is known: right labels that are suspected, and planted flips that are.

Each backbone sees the class of an image through noise, of which a part is the same for all backbones: what an image
does not show, no backbone sees. Alone, a backbone is right on 94 % of images. Its probabilities are the posterior of
the classes, so they are calibrated.
"""

from __future__ import annotations

import numpy as np
from permafrost.statistics.wrong_labels.judged import judge_labels

TITLE = "5 classes, 2000 images, 5 % of the labels flipped or none"
DOCUMENT = "docs/wrong-labels.md"
FULL, SMALL = 20, 1

IMAGES, CLASSES, FLIPPED = 2000, 5, 0.05
# of a class among others, in standard deviations of the noise
DISTANCE = 3.0
SHARED = {"none": 0.0, "half": 0.5, "all": 1.0}
BACKBONES = (1, 2, 3, 5)


def table(draws: int, seed: int) -> str:
    """Rows: shared part of the noise; columns: backbones."""
    lines = [
        "| noise in common | backbones | right labels suspected, of 1000, without flips | … with flips |"
        " flips suspected | suspects that are flips |",
        "|---|---|---|---|---|---|",
    ]
    for name, shared in SHARED.items():
        for count in BACKBONES:
            rng = np.random.default_rng((seed, round(10 * shared), count))
            each = np.array([_shares(rng, shared, count) for _ in range(draws)])
            clean, among, found, precise = np.nanmean(each, axis=0)
            lines.append(
                f"| {name} | {count} | {1000 * clean:.1f} | {1000 * among:.1f} | {100 * found:.0f} % |"
                f" {100 * precise:.0f} % |"
            )
    return "\n".join(lines)


def _shares(rng: np.random.Generator, shared: float, backbones: int) -> tuple[float, ...]:
    true = rng.integers(0, CLASSES, IMAGES)
    wrong = rng.random(IMAGES) < FLIPPED
    given = np.where(wrong, (true + rng.integers(1, CLASSES, IMAGES)) % CLASSES, true)
    common = rng.normal(size=(IMAGES, CLASSES))
    answers = {}
    for number in range(backbones):
        noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=common.shape)
        seen = DISTANCE * (DISTANCE * np.eye(CLASSES)[true] + noise)
        scores = np.exp(seen - seen.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        answers[f"b{number}"] = (scores.argmax(axis=1), scores)
    clean = judge_labels(true, answers).suspects.mean()
    suspects = judge_labels(given, answers).suspects
    precise = wrong[suspects].mean() if suspects.any() else np.nan
    return clean, suspects[~wrong].mean(), suspects[wrong].mean(), precise
