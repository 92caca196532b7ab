"""How far a ranking over datasets would move with other datasets, other test items and other seeds.

What is drawn (`uncertainty`)
-----------------------------
`items`: the datasets stay; each part of a test set is weighted by chance, alike for all backbones, and seeds stray.
`datasets`: datasets are drawn with replacement. `both`: datasets, and items and seeds within them.
Scores differ between datasets also because test sets are finite. To draw datasets as they are and to add the noise of
items would count it twice. So what is a backbone's own on each dataset is first drawn together to the spread that
it would have with endless test sets; noise brings it back to what is seen. A mean over datasets then has the variance
of the observed values, and no less than that of the items. Where backbones do not differ from dataset to dataset
at all, intervals of `both` are too wide: 99 % of those of 95 % hold the truth, in simulation with 12 datasets.

Where a statistic is the same in every draw (a backbone that is first on each of four datasets), its deviation of 0 says
nothing of a fifth. A share 1 - (alpha / 2)^(1 / n) of what is not seen may then be anything, n being the number of
datasets or, where these stay, the parts of a test set; and two backbones are told apart if 2^(1 - n) times the number
of pairs is at most alpha, as by a sign test.

Ranks of noisy draws lie nearer to the middle than the ranks at hand. So intervals are not their quantiles but the value
± t x their standard deviation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from permafrost.core.errors import PermafrostError, look_up
from permafrost.statistics.resampling.student_t import normal_quantile, t_quantile

# deviations below this share of a value are rounding
_STILL = 1e-12
UNCERTAINTIES = ("datasets", "items", "both")


@dataclass(frozen=True)
class Scores:
    """The primary metric of D datasets and K backbones, complete.

    Attributes
    ----------
    values : (D, K, S) of each seed; NaN where a dataset has fewer seeds.
    higher : (D,) whether more is better.
    items : D arrays (K, J) of what each part of the test set contributes to the mean over seeds, less its share of
        it (`jackknife.contributions`), so that each row's sum is 0; None where items are not known.

    Raises
    ------
    PermafrostError : a backbone has no score on a dataset.
    """

    values: np.ndarray
    higher: np.ndarray
    items: tuple[np.ndarray, ...] | None = None

    def __post_init__(self) -> None:
        missing = np.isnan(self.values).all(axis=-1)
        if missing.any():
            dataset, backbone = np.argwhere(missing)[0]
            raise PermafrostError(
                f"{missing.sum()} scores are missing, the first of backbone {backbone} on dataset {dataset}",
                remedy="take the datasets that all backbones have",
            )

    @property
    def signs(self) -> np.ndarray:
        return np.where(self.higher, 1.0, -1.0)

    def oriented(self) -> np.ndarray:
        """(D, K) means over seeds, higher being better."""
        return np.nanmean(self.values, axis=-1) * self.signs[:, None]

    def seed_variance(self) -> np.ndarray:
        """(D, K) of the mean over seeds; 0 with one seed."""
        count = np.sum(~np.isnan(self.values), axis=-1)
        squares = np.nansum((self.values - np.nanmean(self.values, -1, keepdims=True)) ** 2, -1)
        return squares / np.maximum(count - 1, 1) / count


def draw(scores: Scores, uncertainty: str, *, draws: int, seed: int) -> np.ndarray:
    """(B, D, K) oriented values.

    Raises
    ------
    PermafrostError : an unknown `uncertainty`; one dataset, where datasets are drawn; items that are not known,
        where these are.
    """
    look_up(UNCERTAINTIES, uncertainty, "no uncertainty")
    if uncertainty != "datasets" and scores.items is None:
        raise PermafrostError(
            "the contribution of test items is unknown", remedy="set uncertainty: datasets"
        )
    values = scores.oriented()
    if uncertainty != "items" and len(values) < 2:
        raise PermafrostError("one dataset cannot be resampled", remedy="set uncertainty: items")
    rng = np.random.Generator(np.random.PCG64(seed))
    which = _chosen(len(values), uncertainty, draws, rng)
    if uncertainty != "items" and scores.items is not None:
        values = _drawn_together(scores, values)
    drawn = values[which]
    if uncertainty != "datasets":
        for dataset in range(len(values)):
            chosen = which == dataset
            drawn[chosen] += _noise(scores, dataset, np.count_nonzero(chosen), rng)
    return drawn


def drawn_datasets(datasets: int, uncertainty: str, *, draws: int, seed: int) -> np.ndarray:
    """(B, D) which dataset each of `draw` has in each place."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return _chosen(datasets, uncertainty, draws, rng)


def interval(
    value,
    drawn,
    *,
    datasets: int | None,
    parts: int = 0,
    confidence: float,
    limits=(-np.inf, np.inf),
    of_order: bool = False,
):
    """Bounds (…), (…) of statistics: value ± t x the standard deviation of the draws, cut to `limits`.

    NaN where a statistic without limits is the same in every draw.

    Parameters
    ----------
    value : (…, K) of the scores at hand; drawn : (B, …, K) of each draw.
    datasets : how many were drawn with replacement, of which Student's t has one degree less; None where they were not.
    parts : of the smallest test set, read where datasets were not drawn.
    of_order : whether the statistic reads scores only as an order (ranks, wins, Elo). Noise around scores that already
        have it turns the order of two equal backbones less often than new items would, see `_equal_order`.
    """
    value, deviation = np.asarray(value, np.float64), np.std(drawn, axis=0, ddof=1)
    if of_order and datasets is None:
        deviation = deviation * math.sqrt(_equal_order(value.shape[-1]))
    half = _quantile(datasets, confidence) * deviation * _few(datasets)
    bounds = np.clip(value - half, *limits), np.clip(value + half, *limits)
    still = deviation <= _STILL * (1 + np.abs(value))
    if not still.any():
        return bounds
    count = parts if datasets is None else datasets
    unseen = 1 - ((1 - confidence) / 2) ** (1 / max(count, 1))
    with np.errstate(invalid="ignore"):
        ends = [value + unseen * (limit - value) for limit in limits]
    ends = [np.where(np.isfinite(end), end, np.nan) for end in ends]
    return tuple(np.where(still, end, bound) for end, bound in zip(ends, bounds, strict=True))


def told_apart(
    value,
    drawn,
    *,
    datasets: int | None,
    parts: int = 0,
    confidence: float,
    of_order: bool = False,
) -> np.ndarray:
    """(K, K) whether the row's backbone is better than the column's, at a level that holds for all pairs together.

    Differences over their standard deviation are held against the quantile of the largest one of all pairs, as draws
    around their mean give it. Of few datasets, against the quantile of Student's t with as small a tail.

    Parameters
    ----------
    value : (K,) statistic, higher being better; drawn : (B, K); datasets, parts, of_order : as in `interval`.
    """
    value, drawn = np.asarray(value, np.float64), np.asarray(drawn, np.float64)
    backbones = len(value)
    drawn = drawn - drawn.mean(axis=0)
    count = max(parts if datasets is None else datasets, 1)
    pairs = backbones * (backbones - 1) / 2
    certain = pairs * 2.0 ** (1 - count) <= 1 - confidence
    largest, ratios = np.zeros(len(drawn)), np.zeros((backbones, backbones))
    for one in range(backbones - 1):
        gaps = value[one] - value[one + 1 :]
        strayed = drawn[:, [one]] - drawn[:, one + 1 :]
        deviation = np.sqrt(np.sum(strayed**2, axis=0) / (len(drawn) - 1))
        moving = deviation > _STILL * (1 + np.abs(gaps))
        if moving.any():
            sizes = np.abs(strayed[:, moving]) / deviation[moving]
            np.maximum(largest, sizes.max(axis=1), out=largest)
            deviation = deviation * _few(datasets)
            ratios[one, one + 1 :][moving] = gaps[moving] / deviation[moving]
        if certain:
            ratios[one, one + 1 :][~moving & (gaps != 0)] = np.inf * np.sign(
                gaps[~moving & (gaps != 0)]
            )
    beyond = np.quantile(largest, confidence)
    if datasets is not None and beyond > 0:
        tail = max(math.erfc(beyond / math.sqrt(2)), 1e-12)
        beyond = float(t_quantile(1 - tail, datasets - 1))
    elif of_order:
        beyond = beyond * math.sqrt(_equal_order(backbones))
    return (ratios > beyond) | (ratios < -beyond).T


def _chosen(datasets: int, uncertainty: str, draws: int, rng) -> np.ndarray:
    if uncertainty == "items":
        return np.broadcast_to(np.arange(datasets), (draws, datasets))
    return rng.integers(0, datasets, (draws, datasets))


def _equal_order(backbones: int) -> float:
    """By how much new test items vary the ranks of equal backbones more than draws around what is at hand: 1.5 to 1.93.

    Gaps at hand are noise, so that the chance p of each order in a draw is uniform. An order in a draw has the mean
    variance E[p (1 - p)] = 1/6, not 1/4; orders with one backbone in common covary by 1/12 less what their p do.
    """
    others = backbones - 2
    shared = math.asin(1 / 4) / (2 * math.pi)
    return (1 / 4 + others / 12) / (1 / 6 + others * (1 / 12 - shared))


def _noise(scores: Scores, dataset: int, count: int, rng) -> np.ndarray:
    """(count, K) of items, alike for all backbones, and of seeds, each for itself."""
    items = scores.items[dataset]
    parts = items.shape[1]
    scale = np.sqrt(parts / (parts - 1)) if parts > 1 else 0.0
    noise = rng.standard_normal((count, parts)) @ items.T * (scale * scores.signs[dataset])
    return noise + rng.standard_normal(noise.shape) * np.sqrt(scores.seed_variance()[dataset])


def _drawn_together(scores: Scores, values: np.ndarray) -> np.ndarray:
    """(D, K) values less the spread between datasets that items and seeds explain."""
    level = values.mean(axis=1, keepdims=True)
    typical = (values - level).mean(axis=0)
    own = values - level - typical
    explained = scores.seed_variance().sum(axis=0)
    for items in scores.items:
        parts = items.shape[1]
        if parts > 1:
            # of the difference to the mean of all backbones, as `own` is
            explained = explained + parts / (parts - 1) * np.sum((items - items.mean(0)) ** 2, 1)
    seen = np.sum(own**2, axis=0) * len(values) / (len(values) - 1)
    left = 1 - np.divide(explained, seen, out=np.ones_like(seen), where=seen > 0)
    return level + typical + np.sqrt(np.clip(left, 0, 1)) * own


def _quantile(datasets: int | None, confidence: float) -> float:
    if datasets is None:
        return normal_quantile(confidence)
    return float(t_quantile(confidence, datasets - 1))


def _few(datasets: int | None) -> float:
    """Draws with replacement of n have (n - 1) / n of the variance."""
    return 1.0 if datasets is None else np.sqrt(datasets / (datasets - 1))
