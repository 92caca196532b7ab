"""Distribution of a dataset's labels over its splits, and checks of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.records import Record


def label_array(records: Sequence[Record], task: str) -> np.ndarray:
    """(N,) int64 class ids, (N, L) uint8 for multiple labels, (N,) float64 for numbers."""
    return np.array([record.label for record in records], dtype=targets_of(task).stored)


def class_counts(records: Sequence[Record], task: str, classes: int) -> np.ndarray:
    """(K,) images per class; an image with several labels counts for each.

    For objects, the number of objects per class without crowds. Empty for numbers.
    """
    targets = targets_of(task)
    if targets.objects:
        found = [r.objects.classes[~r.objects.crowd] for r in records]
        return np.bincount(np.concatenate([np.empty(0, np.int32), *found]), minlength=classes)
    return targets.counts(label_array(records, task), classes)


def check_classes(
    classes: Sequence[str],
    counts: dict[str, np.ndarray],
    *,
    dead: Sequence[int] = (),
    allow_missing: bool,
    where: object,
) -> None:
    """Raise `PermafrostError` if a class has no training sample, because no probe could predict it.

    Parameters
    ----------
    dead : ids of classes declared dead, which need no sample.
    """
    missing = [
        name
        for number, name in enumerate(classes)
        if not counts["train"][number] and number not in dead
    ]
    if missing and not allow_missing:
        elsewhere = [
            name
            for name in missing
            if any(counts[split][list(classes).index(name)] for split in ("val", "test"))
        ]
        detail = f" ({', '.join(elsewhere)} in val or test)" if elsewhere else ""
        raise PermafrostError(
            f"train has no sample of {_count(len(missing), 'class')}: {', '.join(missing)}{detail}",
            where=where,
            remedy="change the splits, remove the class from classes, or set"
            " allow_missing_classes: true to continue",
        )


def check_several(classes: Sequence[str], counts: dict[str, np.ndarray], *, where: object) -> None:
    """Raise `PermafrostError` if all samples have the same class, because predicting it would always be right."""
    held = np.flatnonzero(sum(counts.values()))
    if len(held) == 1:
        raise PermafrostError(
            f"all samples are of one class, {classes[held[0]]!r}",
            where=where,
            remedy="give samples of two or more classes",
        )


def dead_classes(counts: dict[str, np.ndarray], declared: Sequence[int] = ()) -> list[int]:
    """Ids of classes that are not scored: declared dead, or absent from all splits."""
    return sorted({*declared, *np.flatnonzero(sum(counts.values()) == 0).tolist()})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}es"
