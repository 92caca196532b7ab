"""Numbers as labels: one per image (task ``regression``) or per pixel (``pixel_regression``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import task_of
from permafrost.data.records import Record

REGRESSION, PIXEL_REGRESSION = "regression", "pixel_regression"
#: options of an entry that only a dataset of numbers has
OPTIONS = ("target",)
#: keys of ``target`` that say how rasters store their numbers
STORED = ("nodata", "scale", "offset")
MOST_BINS = 20
STRATA = 10


def check_options(entry: dict, *, where: object) -> None:
    """Refuse options that would do nothing in silence: of targets without, of classes with them."""
    regression = task_of(entry["task"]).numbers
    idle = ("classes", "allow_missing_classes") if regression else OPTIONS
    idle = [key for key in idle if entry.get(key)]
    if idle:
        kinds = "a regression dataset has no classes" if regression else "only for task: regression"
        _refuse_idle(idle, kinds, where)
    if entry["task"] != PIXEL_REGRESSION or entry["source"]["kind"] == "demo":
        idle = [f"target.{key}" for key in STORED if key in entry.get("target", {})]
        if idle:
            _refuse_idle(idle, "only for rasters of numbers that are read from data", where)


def _refuse_idle(idle: Sequence[str], why: str, where: object) -> None:
    raise PermafrostError(
        f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no meaning here ({why})",
        where=where,
        remedy="remove what has no meaning, or correct the task",
    )


def check_targets(splits: dict[str, Sequence[Record]], *, where: object) -> None:
    """Refuse targets that are not finite, and a train split whose targets are all the same."""
    for split, records in splits.items():
        bad = [r.sample_id for r in records if r.label is None or not np.isfinite(r.label)]
        if bad:
            raise PermafrostError(
                f"{len(bad)} of {len(records)} samples of {split} have a target that is NaN,"
                f" infinite or missing, e.g. {', '.join(bad[:5])}",
                where=where,
                remedy="give each image a number, or leave such images out of the data",
            )
    found = {record.label for record in splits["train"]}
    if len(found) < 2:
        raise PermafrostError(
            f"all targets of train are {found.pop():g}, so there is nothing to learn",
            where=where,
            remedy="change the splits, or name another target",
        )


def target_card(entry: dict, splits: dict[str, Sequence[Record]]) -> dict:
    """The card's ``target``: name, unit, and statistics of each split.

    ``edges`` are those of a histogram over all splits, ``histogram`` a split's counts between them.
    ``std`` has n in its denominator.
    """
    values = {split: np.array([r.label for r in records]) for split, records in splits.items()}
    everything = np.concatenate(list(values.values()))
    bins = min(MOST_BINS, math.ceil(len(values["train"]) ** 0.5))
    edges = np.linspace(everything.min(), everything.max(), bins + 1)
    declared = entry.get("target", {})
    source = entry["source"]
    return {
        "name": declared.get("name") or source.get("target") or source.get("label_key", "target"),
        "unit": declared.get("unit"),
        "edges": edges.tolist(),
        "splits": {split: _statistics(own, edges) for split, own in values.items()},
    }


def _statistics(values: np.ndarray, edges: np.ndarray) -> dict:
    return {
        "mean": float(values.mean()),
        "std": float(values.std()),
        "min": float(values.min()),
        "median": float(np.median(values)),
        "max": float(values.max()),
        "histogram": np.histogram(values, edges)[0].tolist(),
    }


def target_strata(targets: np.ndarray) -> np.ndarray:
    """(N,) number of the tenth that each target lies in, so that splits are spread over the range."""
    inner = np.quantile(targets, np.linspace(0, 1, STRATA + 1)[1:-1])
    return np.searchsorted(np.unique(inner), targets, side="right")
