"""The strength alpha of a ridge penalty: the grid of values, and the choice of the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.options import Above0, Options, Positive


@dataclass(frozen=True, kw_only=True)
class AlphaOptions(Options):
    """Options of both ridge probes."""

    alpha_min: Above0 = 1e-3
    """Smallest strength alpha of the penalty."""
    alpha_max: Above0 = 1e7
    """Largest strength alpha of the penalty."""
    alpha_count: Positive = 41
    """Number of values of alpha on the logarithmic grid."""
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
    """The alpha with the smallest error, the largest of equals.

    Attributes
    ----------
    value : (1,) the chosen alpha.
    settings : record of the choice.
    gates : names of the failed sanity checks.
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
        """Choose by the root mean squared error of every alpha.

        Parameters
        ----------
        metric : name of `errors` in the record.
        directions : number of directions along which the features vary.
        gates : other failed checks of the fit.
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
