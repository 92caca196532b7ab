"""Backbones without a score on some datasets: what is ranked, what is left out, and what is filled in, marked.

`common` ranks the datasets on which every backbone has a score. `worst` gives a missing score the worst of the other
backbones on its dataset, and `baseline` that of a backbone that is named. What is filled in is no result: it
is marked, and in every draw of datasets and items the rule is applied anew (`fill_draws`), so that a filled score stays
level with the one that it is taken from.
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
    scores : of D datasets, of which there may be none, and K backbones.
    datasets : D names.
    imputed : (D, K) which scores are filled in.
    left_out : dataset that is not ranked to the backbones without a score on it.
    baseline : index of the backbone that scores are taken from; None where it is the worst of each dataset.
    measured : all scores that were given, with their gaps.
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
    """The complete table by the rule `missing`, of `MISSING`.

    A filled score has the seeds and items of the backbone that it is taken from. A dataset is left out where there is
    nothing to take: `baseline` has no score there.

    Parameters
    ----------
    values : (D, K, S) as in `Scores`; a score is missing where all seeds are NaN.
    higher : (D,) whether more is better.
    items : as in `Scores`; rows of missing scores are not read. None where items are not known.
    baseline : name of a backbone, read with ``missing="baseline"``.

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
    """Draws (B, D, K), or (B, D, K, S) of seeds, with what is imputed filled by the same rule in each.

    Parameters
    ----------
    drawn : oriented, higher being better (`draws.draw`).
    which : (B, D) or (D,) dataset in each place of a draw (`draws.drawn_datasets`).
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
