"""Backbones without a score on some datasets: which datasets are ranked, excluded, or imputed.

`common` ranks the datasets on which every backbone has a score. `worst` replaces a missing score by
the worst of the other backbones on the dataset, `baseline` by that of a named backbone. Imputed
scores are marked. Every draw of datasets and items applies the rule again (`fill_draws`), so that
an imputed score stays equal to its source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.statistics.across_datasets.chances import Measured
from permafrost.statistics.across_datasets.draws import Scores

MISSING = ("common", "worst", "baseline")


@dataclass(frozen=True)
class Complete:
    """A table of scores without gaps.

    Attributes
    ----------
    scores : of D datasets, possibly none, and K backbones.
    datasets : D names.
    imputed : (D, K) which scores are imputed.
    left_out : excluded dataset to the backbones without a score on it.
    baseline : index of the backbone that imputed scores come from; None for the worst of each
        dataset.
    measured : all scores before imputation, with gaps.
    """

    scores: Scores
    datasets: list[str]
    imputed: np.ndarray
    left_out: dict[str, list[str]]
    baseline: int | None
    measured: Measured


def complete(
    values,
    higher,
    items: Sequence[np.ndarray] | None,
    *,
    datasets: Sequence[str],
    backbones: Sequence[str],
    missing: str = "common",
    baseline: str | None = None,
) -> Complete:
    """Complete the table by the rule `missing`, one of `MISSING`.

    An imputed score has the seeds and items of its source. A dataset is excluded if there is no
    source: `baseline` has no score there.

    Parameters
    ----------
    values : (D, K, S) as in `Scores`; a score is missing if all seeds are NaN.
    higher : (D,) whether higher is better.
    items : as in `Scores`; rows of missing scores are not used. None if items are unknown.
    baseline : name of a backbone, for ``missing="baseline"``.

    Raises
    ------
    PermafrostError : an unknown rule or baseline; a backbone without any score.
    """
    values, higher = np.asarray(values, np.float64), np.asarray(higher, bool)
    datasets, backbones = list(datasets), list(backbones)
    _check_rule(missing, baseline, backbones)
    absent = np.isnan(values).all(axis=-1)
    for place in np.flatnonzero(absent.all(axis=0)):
        raise PermafrostError(
            f"the backbone {backbones[place]!r} has no score on any of {len(datasets)} datasets",
            remedy="leave it out of the ranking",
        )
    place = backbones.index(baseline) if missing == "baseline" else None
    if missing == "worst":
        means = np.nanmean(np.where(absent[..., None], 0, values), axis=-1)
        means = np.where(absent, np.inf, means * np.where(higher, 1, -1)[:, None])
        source = means.argmin(axis=1)
    else:
        source = np.full(len(datasets), -1 if place is None else place)
    rows, given = np.arange(len(datasets)), items
    gaps = absent.any(axis=1)
    kept = ~gaps if missing == "common" else ~(gaps & absent[rows, source])
    filled = np.where(absent[..., None], values[rows, source][:, None], values)
    if items is not None:
        items = tuple(
            np.where(absent[row][:, None], items[row][source[row]], items[row])
            for row in np.flatnonzero(kept)
        )
    return Complete(
        Scores(filled[kept], higher[kept], items),
        [datasets[row] for row in np.flatnonzero(kept)],
        absent[kept],
        {
            datasets[row]: [backbones[each] for each in np.flatnonzero(absent[row])]
            for row in np.flatnonzero(~kept)
        },
        place,
        Measured(values, higher, given, kept),
    )


def fill_draws(drawn, which, table: Complete) -> np.ndarray:
    """Draws (B, D, K), or (B, D, K, S) per seed, with missing scores imputed in each.

    Parameters
    ----------
    drawn : oriented, higher is better (`draws.draw`).
    which : (B, D) or (D,) index of the dataset at each position (`draws.drawn_datasets`).
    """
    drawn = np.asarray(drawn)
    imputed = np.broadcast_to(table.imputed[which], drawn.shape[:3])
    imputed = imputed.reshape(imputed.shape + (1,) * (drawn.ndim - 3))
    if table.baseline is None:
        source = np.where(imputed, np.inf, drawn).min(axis=2, keepdims=True)
    else:
        source = drawn[:, :, [table.baseline]]
    return np.where(imputed, source, drawn)


def _check_rule(missing: str, baseline: str | None, backbones: list[str]) -> None:
    look_up(MISSING, missing, "no rule")
    if missing == "baseline" and baseline not in backbones:
        problem = "none is named" if baseline is None else f"{baseline!r} has none"
        raise PermafrostError(
            f"missing scores use those of the baseline, but {problem}",
            remedy=f"name one of {', '.join(backbones)} as the baseline, or set missing: worst",
        )
