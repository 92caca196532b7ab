"""Small sets of backbones that contain, for every dataset, one nearly as good as the best of all.

The loss of a set on a dataset is the best score of all backbones minus the best score of the set, on its test
images. Greedy selection adds the backbone that lowers the mean loss most. The mean best score of its sets is at
least 1 - 1 / e of the largest one of a set of that size (Nemhauser, Wolsey and Fisher, An analysis of
approximations for maximizing submodular set functions, 1978). A set that is chosen and judged on the same datasets
looks too good; so each dataset is judged with the set that is chosen on the others, and the interval is that of a mean
over datasets. The best of many noisy scores is higher by chance than the best of few, so losses are biased upwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.tasks import metric_of
from permafrost.statistics.resampling.intervals import same_in_all_units
from permafrost.statistics.resampling.student_t import t_quantile

#: datasets that selection needs; members of the largest set
LEAST_DATASETS, MOST_MEMBERS = 3, 5
#: mean loss that is small enough
SMALL = 0.01


@dataclass(frozen=True)
class Portfolio:
    """A set of backbones.

    Attributes
    ----------
    members : in the order of selection on all datasets.
    loss, lower, upper : mean over datasets, each judged with the set chosen on the others, with its interval.
    worst, worst_loss : the dataset with the largest loss.
    """

    members: tuple[str, ...]
    loss: float
    lower: float
    upper: float
    worst: str
    worst_loss: float
    confidence: float


def portfolios(
    scores: np.ndarray,
    backbones: Sequence[str],
    datasets: Sequence[str],
    *,
    confidence: float = 0.95,
) -> list[Portfolio]:
    """Sets of one to `MOST_MEMBERS` backbones.

    Parameters
    ----------
    scores : (D, K) of the datasets and backbones, in [0, 1], where more is better.

    Raises
    ------
    PermafrostError : fewer than `LEAST_DATASETS` datasets, or fewer than two backbones.
    """
    count, known = scores.shape
    if count < LEAST_DATASETS or known < 2:
        raise PermafrostError(
            f"a portfolio needs {LEAST_DATASETS} datasets and two backbones, and there are {count} and {known}",
            remedy="add datasets with scores of every backbone",
        )
    most = min(MOST_MEMBERS, known)
    best = scores.max(axis=1)
    orders = [_order(np.delete(scores, one, axis=0), most) for one in range(count)]
    every = _order(scores, most)
    found = []
    for size in range(1, most + 1):
        losses = np.array([best[d] - scores[d, orders[d][:size]].max() for d in range(count)])
        half = float(t_quantile(confidence, count - 1)) * losses.std(ddof=1) / np.sqrt(count)
        if size < known and not losses.any():
            # some datasets may lose everything, though none of these loses anything
            half = same_in_all_units(count, confidence)
        worst = int(losses.argmax())
        found.append(
            Portfolio(
                tuple(backbones[place] for place in every[:size]),
                float(losses.mean()),
                # no loss is below 0
                max(0.0, float(losses.mean() - half)),
                # scores are in [0, 1]
                min(1.0, float(losses.mean() + half)),
                datasets[worst],
                float(losses[worst]),
                confidence,
            )
        )
    return found


def _order(scores: np.ndarray, most: int) -> list[int]:
    """The columns in the order of greedy selection; the first of equal ones."""
    chosen: list[int] = []
    reached = np.full(len(scores), -np.inf)
    while len(chosen) < most:
        gains = np.maximum(reached[:, None], scores).mean(axis=0)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        reached = np.maximum(reached, scores[:, chosen[-1]])
    return chosen


def portfolios_of(rows: Sequence[Mapping], **options) -> list[Portfolio]:
    """Those of one probe.

    Parameters
    ----------
    rows : primary rows of one probe, one per dataset and backbone. Only metrics in [0, 1] are used, and datasets with a
        score of every backbone.

    Raises
    ------
    PermafrostError : as in `portfolios`.
    """
    backbones = sorted({row["backbone"] for row in rows})
    known = {
        (row["dataset"], row["backbone"]): row["value"]
        for row in rows
        if np.isfinite(row["value"]) and metric_of(row["metric"]).bounds == "unit"
    }
    datasets = sorted({name for name, _ in known if all((name, one) in known for one in backbones)})
    scores = np.array([[known[name, one] for one in backbones] for name in datasets])
    return portfolios(scores.reshape(len(datasets), len(backbones)), backbones, datasets, **options)


def smallest(found: Sequence[Portfolio], most: float = SMALL) -> Portfolio | None:
    """The smallest set whose mean loss is at most this."""
    return next((one for one in found if one.loss <= most), None)
