"""Numbers as labels: one per image (task ``regression``) or per pixel (``pixel_regression``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.core.tasks import targets_of
from permafrost.data.entry import DatasetEntry
from permafrost.data.records import Record

MOST_BINS = 20
STRATA = 10


def check_options(entry: DatasetEntry, *, where: object) -> None:
    """Raise `PermafrostError` for options without effect: of targets in other tasks, of classes in these."""
    targets = targets_of(entry.task)
    regression = targets.numbers
    idle: Sequence[str] = ("classes", "allow_missing_classes") if regression else ("target",)
    idle = [key for key in idle if getattr(entry, key)]
    if idle:
        kinds = "a regression dataset has no classes" if regression else "only for task: regression"
        _refuse_idle(idle, kinds, where)
    if regression and not (targets.pixels and entry.kind != "demo"):
        stored = {"nodata": None, "scale": 1, "offset": 0}
        idle = [f"target.{key}" for key in stored if getattr(entry.target, key) != stored[key]]
        if idle:
            _refuse_idle(idle, "only for rasters of numbers that are read from data", where)


def _refuse_idle(idle: Sequence[str], why: str, where: object) -> None:
    raise PermafrostError(
        f"{' and '.join(idle)} {'have' if len(idle) > 1 else 'has'} no meaning here ({why})",
        where=where,
        remedy="remove these keys, or correct the task",
    )


def check_targets(splits: Mapping[str, Sequence[Record]], *, where: object) -> None:
    """Raise `PermafrostError` for targets that are not finite, or for a train split with a single target value."""
    for split, records in splits.items():
        bad = [r.sample_id for r in records if r.label is None or not np.isfinite(r.label)]
        if bad:
            raise PermafrostError(
                f"{len(bad)} of {len(records)} samples of {split} have a target that is NaN,"
                f" infinite or missing, e.g. {', '.join(bad[:5])}",
                where=where,
                remedy="give each image a number, or remove such images from the data",
            )
    found = {record.label for record in splits["train"]}
    if len(found) < 2:
        raise PermafrostError(
            f"all targets of train are {found.pop():g}, so there is nothing to learn",
            where=where,
            remedy="change the splits, or name another target",
        )


def target_card(entry: DatasetEntry, splits: Mapping[str, Sequence[Record]]) -> dict:
    """The card's ``target``: name, unit, and statistics of each split.

    ``edges`` are the bin edges of a histogram over all splits, ``histogram`` a split's counts.
    ``std`` divides by n.
    """
    values = {split: np.array([r.label for r in records]) for split, records in splits.items()}
    everything = np.concatenate(list(values.values()))
    bins = min(MOST_BINS, math.ceil(len(values["train"]) ** 0.5))
    edges = np.linspace(everything.min(), everything.max(), bins + 1)
    return {
        "name": target_name(entry),
        "unit": entry.target.unit,
        "edges": edges.tolist(),
        "splits": {split: _statistics(own, edges) for split, own in values.items()},
    }


def target_name(entry: DatasetEntry) -> str:
    """The entry's name of the target, else its column or key."""
    source = entry.source
    return (
        entry.target.name
        or getattr(source, "target", None)
        or getattr(source, "label_key", None)
        or "target"
    )


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
    """(N,) decile of each target, so that splits cover its range."""
    inner = np.quantile(targets, np.linspace(0, 1, STRATA + 1)[1:-1])
    return np.searchsorted(np.unique(inner), targets, side="right")


BINS = 40


@dataclass(frozen=True)
class TargetStatistics:
    """Statistics of the targets of some pixels.

    ``pixels`` of all images, ``count`` of pixels with data, ``empty`` images without data; and the
    targets' ``mean``, sum of squares about it, ``low`` and ``high``.
    """

    pixels: int = 0
    count: int = 0
    empty: int = 0
    mean: float = 0.0
    squares: float = 0.0
    low: float = np.inf
    high: float = -np.inf

    @classmethod
    def of(cls, target: np.ndarray) -> TargetStatistics:
        """Statistics of one image, (H, W) with NaN without data."""
        values = target[~np.isnan(target)].astype(np.float64)
        if not values.size:
            return cls(pixels=target.size, empty=1)
        mean = float(values.mean())
        squares = float(np.sum((values - mean) ** 2))
        low, high = float(values.min()), float(values.max())
        return cls(target.size, values.size, 0, mean, squares, low, high)

    def __add__(self, other: TargetStatistics) -> TargetStatistics:
        """Statistics of both. Source: Chan, Golub and LeVeque (1979), Updating Formulae."""
        count = self.count + other.count
        share = other.count / count if count else 0.0
        step = other.mean - self.mean
        return TargetStatistics(
            self.pixels + other.pixels,
            count,
            self.empty + other.empty,
            self.mean + step * share,
            self.squares + other.squares + step**2 * self.count * share,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def check_rasters(statistics: dict[str, TargetStatistics], *, where: object) -> None:
    """Raise `PermafrostError` for a split without any data, or for a train split with a single target value."""
    for split, found in statistics.items():
        if not found.count:
            raise PermafrostError(
                f"no pixel of {split} has a target",
                where=where,
                remedy="check the rasters and target.nodata, or change the splits",
            )
    train = statistics["train"]
    if train.low == train.high:
        raise PermafrostError(
            f"all targets of train are {train.low:g}, so there is nothing to learn",
            where=where,
            remedy="change the splits, or name other targets",
        )


def raster_card(entry: DatasetEntry, statistics: dict[str, TargetStatistics], arrays: dict) -> dict:
    """The card's ``target``: name, unit, and statistics of each split.

    ``edges`` are the bin edges of a histogram over all splits, ``histogram`` a split's counts of
    pixels; ``std`` divides by n; ``without_data`` is a share of the pixels, ``empty_images`` the
    number of images without any data.

    Parameters
    ----------
    arrays : split -> zarr array of its stored targets (N, H, W), NaN without data.
    """
    low = min(found.low for found in statistics.values())
    high = max(found.high for found in statistics.values())
    edges = np.linspace(low, high, BINS + 1)
    return {
        "name": target_name(entry),
        "unit": entry.target.unit,
        "edges": edges.tolist(),
        "splits": {
            split: {
                "pixels": found.count,
                "without_data": 1 - found.count / found.pixels,
                "empty_images": found.empty,
                "mean": found.mean,
                "std": float(np.sqrt(found.squares / found.count)),
                "min": found.low,
                "max": found.high,
                "histogram": _histogram(_chunks(arrays[split]), edges).tolist(),
            }
            for split, found in statistics.items()
        },
    }


def _chunks(array) -> Iterable[np.ndarray]:
    step = max(1, array.chunks[0])
    return (np.asarray(array[start : start + step]) for start in range(0, array.shape[0], step))


def _histogram(chunks: Iterable[np.ndarray], edges: np.ndarray) -> np.ndarray:
    counts = np.zeros(len(edges) - 1, np.int64)
    for chunk in chunks:
        counts += np.histogram(chunk[~np.isnan(chunk)].astype(np.float64), edges)[0]
    return counts
