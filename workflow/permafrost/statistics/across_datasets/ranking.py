"""Statistics over many datasets, and the settings of a ranking."""

from __future__ import annotations

from dataclasses import dataclass

from permafrost.statistics.options import Comparison, RankingSettings

#: the group of all datasets of a run
EVERYTHING = "all"


@dataclass(frozen=True)
class Statistic:
    """A statistic over datasets: name, direction, and whether only the order of scores matters."""

    words: str
    higher_is_better: bool = True
    of_order: bool = False


#: in table order; the first ranks backbones if a single statistic is needed
STATISTICS = {
    "mean_rank": Statistic("mean rank", higher_is_better=False, of_order=True),
    "expected_rank": Statistic("expected rank", higher_is_better=False),
    "probability_best": Statistic("probability of being best"),
    "probability_top3": Statistic("probability of being among the best three"),
    "expected_loss": Statistic("expected loss against the best", higher_is_better=False),
    "win_rate": Statistic("win rate", of_order=True),
    "exact_mean_rank": Statistic("mean rank on exact cells", higher_is_better=False, of_order=True),
    "elo": Statistic("Elo rating", of_order=True),
    "improvement_over_rest": Statistic("probability of improvement over the others", of_order=True),
    "improvability": Statistic("improvability", higher_is_better=False),
    "gain": Statistic("gain over the baseline"),
    "mean": Statistic("mean"),
    "iqm": Statistic("interquartile mean"),
    "normalised_mean": Statistic("normalised mean"),
    "normalised_iqm": Statistic("normalised interquartile mean"),
}
RANKED_BY = next(iter(STATISTICS))


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How backbones are ranked; see the configuration's ``ranking``.

    Attributes
    ----------
    groups : name to datasets.
    uncertainty : one of `draws.UNCERTAINTIES`.
    rope : half-width of the region of practical equivalence, in score units.
    baseline : the backbone that gains are relative to; without its scores there are no gains.
    bounds : dataset to (low, high) for normalised statistics, or None.
    reference : (worst, best), two backbones whose scores are the bounds, or None.
    missing : rule for missing scores, one of `missing.MISSING`.
    """

    groups: dict[str, list[str]]
    uncertainty: str = RankingSettings.uncertainty
    draws: int = RankingSettings.draws
    confidence: float = Comparison.confidence
    seed: int = Comparison.seed
    rope: float = RankingSettings.rope
    baseline: str | None = None
    bounds: dict[str, tuple[float, float]] | None = None
    reference: tuple[str, str] | None = None
    missing: str = RankingSettings.missing
