"""How many planted wrong labels are suspected, and how many suspects are planted, on the features of a finished run.

All images of a dataset are pooled, a share of their labels is replaced by another class at random, and linear probes of
every backbone are cross-fitted on these labels, as for a derived dataset with folds. Nothing else differs between rows.

    envs/run python benchmarks/wrong_labels.py --results results/wrong-labels --dataset eurosat-rgb \
        [--shares 0 0.02 0.05 0.1] [--folds 5] [--seed 0] [--c 0.01 1 100] [--without BACKBONE ...]
"""

from __future__ import annotations

import argparse

import numpy as np
import permafrost as pf
from permafrost.statistics.wrong_labels.judged import Judged, judge_labels

SPLITS = ("train", "val", "test")


def pooled(results: pf.Results, dataset: str, backbone: str) -> tuple[np.ndarray, np.ndarray]:
    parts = [results.features(dataset, backbone, split) for split in SPLITS]
    return np.concatenate([one.x for one in parts]), np.concatenate([one.y for one in parts])


def flipped(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """The labels, exactly this share of which are another class."""
    classes, given = int(labels.max()) + 1, labels.copy()
    rows = rng.choice(len(labels), round(share * len(labels)), replace=False)
    given[rows] = (given[rows] + rng.integers(1, classes, len(rows))) % classes
    return given


def answered(x, given, folds: np.ndarray, c_grid) -> tuple[np.ndarray, np.ndarray]:
    """Class and probabilities of every image, from a probe trained on the other folds."""
    scores = np.zeros((len(given), int(given.max()) + 1))
    for fold in np.unique(folds):
        own = folds == fold
        probe = pf.LinearSweep(C=c_grid).fit(x[~own], given[~own])
        scores[own] = probe.predict_proba(x[own])
    return scores.argmax(axis=1), scores


def line(share: float, labels: np.ndarray, given: np.ndarray, judged: Judged) -> list[str]:
    wrong, suspects = given != labels, judged.suspects
    both = wrong & suspects
    right = (judged.proposed == labels)[both]

    def percent(part, whole) -> str:
        return f"{100 * part / whole:.0f} %" if whole else "–"

    moved = sum(one != other for one, other in zip(*judged.ranks, strict=True))
    cells = (
        *(f"{100 * share:g} %", wrong.sum(), suspects.sum(), both.sum()),
        *(percent(both.sum(), wrong.sum()), f"{100 * judged.found_if_wrong:.0f} %"),
        *(percent(both.sum(), suspects.sum()), percent(right.sum(), both.sum()), moved),
    )
    return [str(cell) for cell in cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", default="results")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--shares", type=float, nargs="+", default=[0, 0.02, 0.05, 0.1])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--c", type=float, nargs="+", default=[0.01, 1, 100])
    parser.add_argument("--without", nargs="+", default=[], help="backbones that do not judge")
    options = parser.parse_args()
    results = pf.Results(options.results)
    names = [name for name in results.backbones if name not in options.without]
    features = {name: pooled(results, options.dataset, name) for name in names}
    labels = features[names[0]][1]
    folds = np.random.default_rng(options.seed).permutation(len(labels)) % options.folds
    print(f"{options.dataset}, {len(labels)} images; judged by {', '.join(names)}\n")
    header = (
        *("flipped", "wrong labels", "suspects", "of these flipped", "share of flips found"),
        *(
            "as predicted",
            "share of suspects that are flips",
            "proposed class is right",
            "ranks moved",
        ),
    )
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for share in options.shares:
        given = flipped(labels, share, np.random.default_rng(options.seed + 1))
        answers = {name: answered(features[name][0], given, folds, options.c) for name in names}
        print(
            f"| {' | '.join(line(share, labels, given, judge_labels(given, answers)))} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
