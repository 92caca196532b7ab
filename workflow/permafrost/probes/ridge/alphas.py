"""The strength of a ridge penalty: the values that are tried, and the one that is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.options import Above0, Options, Positive


@dataclass(frozen=True, kw_only=True)
class AlphaOptions(Options):
    """Options of both ridge probes."""

    alpha_min: Above0 = 1e-3
    """Smallest strength of the penalty."""
    alpha_max: Above0 = 1e7
    """Largest strength."""
    alpha_count: Positive = 41
    """Number of alphas on the logarithmic grid."""
    choose: str
    """Samples on which alpha is chosen."""
    merge_val: bool = True
    """Fit the chosen alpha on train and validation."""
    standardize: bool = True
    """Standardise features with the statistics of the fitted samples."""

    @property
    def alphas(self) -> np.ndarray:
        """The values on the logarithmic grid, ascending."""
        return np.logspace(np.log10(self.alpha_min), np.log10(self.alpha_max), self.alpha_count)


@dataclass(frozen=True)
class ChosenAlpha:
    """The value with the smallest error, of equals the largest.

    Attributes
    ----------
    value : (1,) the value itself.
    settings : what is recorded of the choice.
    gates : names of the sanity checks that it did not pass.
    """

    value: np.ndarray
    settings: dict
    gates: list[str]

    @classmethod
    def of(
        cls,
        options: AlphaOptions,
        errors: np.ndarray,
        *,
        metric: str,
        directions: int,
        gates: Sequence[str] = (),
    ) -> ChosenAlpha:
        """From the root mean squared error of every value.

        Parameters
        ----------
        metric : what `errors` are, in words.
        directions : of the features, along which they vary.
        gates : what else the fit met.
        """
        alphas = options.alphas
        best = len(alphas) - 1 - int(np.argmin(errors[::-1]))
        settings = {
            "alpha": float(alphas[best]),
            "alphas": alphas.tolist(),
            "val_metric": metric,
            "val_scores": errors.tolist(),
            **{name: getattr(options, name) for name in ("choose", "merge_val", "standardize")},
            "directions": directions,
        }
        on_edge = len(alphas) > 1 and best in (0, len(alphas) - 1)
        met = [*gates, *(["best_alpha_on_edge"] if on_edge else [])]
        return cls(alphas[[best]], settings, met + ([] if directions else ["collapsed_features"]))
