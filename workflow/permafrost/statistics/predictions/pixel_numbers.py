"""Predictions of a number per pixel, stored as a few sums per image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.regression import from_sums
from permafrost.statistics.predictions.columns import array_of, groups_of, need_columns, sorted_rows
from permafrost.statistics.predictions.numbers import NumberErrors

# in the order of `metrics.regression.sums_of`
SUMS = ("pixels", "squared_error", "absolute_error", "truth", "truth_squares")
RANGES = ("truth_min", "truth_max", "prediction_min", "prediction_max")


@dataclass(frozen=True)
class PredictedPixels:
    """Predictions of the task ``pixel_regression``; see `Predictions`.

    Attributes
    ----------
    sums : (N, 5) over the valid pixels of each image: 1, e², |e|, truth, truth²; truth is relative
        to `centre`.
    ranges : (N, 4) smallest and largest true number of each image, then predicted ones; NaN without
        valid pixels.
    centre : number subtracted from the truth.
    """

    sample_ids: np.ndarray
    groups: np.ndarray | None
    sums: np.ndarray
    ranges: np.ndarray
    centre: float

    task = "pixel_regression"
    classes = ()
    dead_classes = ()
    boundary = False

    def __len__(self) -> int:
        return len(self.sample_ids)

    @property
    def truth(self) -> np.ndarray:
        """(N, 2) smallest and largest true number."""
        return self.ranges[:, :2]

    @property
    def truth_keys(self) -> np.ndarray:
        """(N, 3) valid pixels, and the sums of truth and of its squares."""
        return self.sums[:, [0, 3, 4]]

    @property
    def answers(self) -> np.ndarray:
        return self.ranges[:, 2:]

    @property
    def rules(self) -> tuple:
        return (("centre", self.centre),)

    @classmethod
    def from_arrays(
        cls, sample_ids, sums, ranges, *, centre: float, groups=None
    ) -> PredictedPixels:
        """From rows in any order.

        Raises
        ------
        PermafrostError : NaN, infinite or impossible negative sums; no valid pixel.
        """
        order, ids, groups = sorted_rows(sample_ids, groups)
        sums, ranges = (np.asarray(array, np.float64)[order] for array in (sums, ranges))
        bad = ~np.isfinite(sums).all(axis=1) | (sums[:, [0, 1, 2, 4]] < 0).any(axis=1)
        if bad.any():
            raise PermafrostError(
                f"{int(bad.sum())} of {len(bad)} images have sums of errors that are not numbers, e.g. {ids[bad][0]}",
                remedy="check the features, then run the evaluation again",
            )
        if not sums[:, 0].any():
            raise PermafrostError(
                "no pixel of the test set has a target",
                remedy="check the rasters of the test split and target.nodata",
            )
        return cls(ids, groups, sums, ranges, float(centre))

    @classmethod
    def from_table(cls, table, metadata: dict) -> PredictedPixels:
        """From a prediction table; see `predictions_from_table`."""
        need_columns(table, ("sample_id", *SUMS, *RANGES))
        return cls.from_arrays(
            table.column("sample_id").to_pylist(),
            np.stack([array_of(table, name) for name in SUMS], axis=1),
            np.stack([_with_gaps(table, name) for name in RANGES], axis=1),
            centre=metadata["centre"],
            groups=groups_of(table),
        )

    def evaluate(self) -> dict:
        """Every metric over all pixels of the test set."""
        values = from_sums(self.sums.sum(axis=0), self.task)
        return {name: float(value) for name, value in values.items()}

    def family(self, units: np.ndarray) -> NumberErrors:
        """Every metric on resamples of the units."""
        return NumberErrors(self.sums, units)


def _with_gaps(table, name: str) -> np.ndarray:
    """A column of numbers, NaN for null."""
    return table.column(name).to_numpy().astype(np.float64)
