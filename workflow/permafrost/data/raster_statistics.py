"""What the targets of pixels are like, split by split, from statistics that are added up image by image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError

BINS = 40


@dataclass(frozen=True)
class TargetStatistics:
    """Statistics of the targets of some pixels.

    ``pixels`` of all images, ``count`` of those with data, ``empty`` images without any; of the targets,
    ``mean``, the sum of squares about it, ``low`` and ``high``.
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
        """Of one image, (H, W) with NaN where there is no data."""
        values = target[~np.isnan(target)].astype(np.float64)
        if not values.size:
            return cls(pixels=target.size, empty=1)
        mean = float(values.mean())
        squares = float(np.sum((values - mean) ** 2))
        low, high = float(values.min()), float(values.max())
        return cls(target.size, values.size, 0, mean, squares, low, high)

    def __add__(self, other: TargetStatistics) -> TargetStatistics:
        """Of both together. Source: Chan, Golub and LeVeque (1979), Updating Formulae."""
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
    """Refuse a split without any data, and a train split whose targets are all the same."""
    for split, found in statistics.items():
        if not found.count:
            raise PermafrostError(
                f"no pixel of {split} has a target",
                where=where,
                remedy="look at the rasters and at target.nodata, or change the splits",
            )
    train = statistics["train"]
    if train.low == train.high:
        raise PermafrostError(
            f"all targets of train are {train.low:g}, so there is nothing to learn",
            where=where,
            remedy="change the splits, or name other targets",
        )


def raster_card(entry: dict, statistics: dict[str, TargetStatistics], arrays: dict) -> dict:
    """The card's ``target``: name, unit, and statistics of each split.

    ``edges`` are those of a histogram over all splits, ``histogram`` a split's counts of pixels between
    them; ``std`` has n in its denominator; ``without_data`` is a share of the pixels, ``empty_images`` the
    number of images without any data.

    Parameters
    ----------
    arrays : split -> zarr array of its stored targets (N, H, W), NaN where there is no data.
    """
    low = min(found.low for found in statistics.values())
    high = max(found.high for found in statistics.values())
    edges = np.linspace(low, high, BINS + 1)
    declared = entry.get("target", {})
    return {
        "name": declared.get("name") or entry["source"].get("label_key", "target"),
        "unit": declared.get("unit"),
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
