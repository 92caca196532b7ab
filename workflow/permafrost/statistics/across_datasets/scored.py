"""All statistics of a group under a probe, with intervals, confidence sets of ranks and letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from permafrost.core.errors import PermafrostError
from permafrost.metrics.tasks import metric_of
from permafrost.statistics.across_datasets import draws as drawing
from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.chances import Chances, all_chances
from permafrost.statistics.across_datasets.draws import Scores
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.letters import compact_letters, ranks_possible
from permafrost.statistics.across_datasets.missing import Complete, fill_draws
from permafrost.statistics.across_datasets.ranking import STATISTICS, Ranking
from permafrost.statistics.across_datasets.tested import tested

# this many draws estimate a standard deviation to 5 %; ratings need one fit per draw
_COSTLY = 200
# draws of the model are correlated
_PER_DRAW = 4
# numbers ranked at once
_TOGETHER = 2_000_000


@dataclass(frozen=True)
class Scored:
    """Complete scores of one group under one probe.

    Attributes
    ----------
    metrics : names of the primary metrics.
    """

    table: Complete
    backbones: list[str]
    metrics: list[str]

    @property
    def scores(self) -> Scores:
        return self.table.scores

    @property
    def best_possible(self) -> np.ndarray:
        """(D,) best value: a score of 1 or an error of 0."""
        return self.scores.higher.astype(float)

    def uncertainty(self, asked: str) -> tuple[str, str]:
        """The uncertainty that can be drawn (or ``none``), and why it differs from `asked`."""
        wanted = {"datasets", "items"} if asked == "both" else {asked}
        notes = []
        if len(self.table.datasets) < 2 and "datasets" in wanted:
            wanted = (wanted - {"datasets"}) | {"items"}
            notes.append("one dataset says nothing of others")
        if self.scores.items is None and "items" in wanted:
            wanted -= {"items"}
            notes.append(
                "the errors of scores are unknown (no intervals, or a test set of one unit)"
            )
        if len(wanted) == 2:
            return "both", ""
        return next(iter(wanted), "none"), "; ".join(notes)

    @property
    def _parts(self) -> int:
        """Number of blocks of the smallest test set."""
        return min((one.shape[1] for one in self.scores.items or ()), default=0)

    @property
    def _shares(self) -> bool:
        """Whether all metrics are in [0, 1] and higher is better."""
        return all(
            (one := metric_of(name)).bounds == "unit" and one.higher_is_better
            for name in self.metrics
        )

    def tests(self, ranking: Ranking) -> dict:
        return tested(
            self.scores,
            self.backbones,
            baseline=ranking.baseline,
            averaged=len(self.metrics) == 1 or self._shares,
            rope=ranking.rope,
            confidence=ranking.confidence,
            seed=ranking.seed,
        )

    def statistics(self, ranking: Ranking, chances: Chances | None):
        """Yield the rows of each statistic, one row per backbone; `chances`: from `with_chances`;
        None without uncertainty."""
        uncertainty, note = self.uncertainty(ranking.uncertainty)
        values = self.scores.values - self.best_possible[:, None, None]
        shifted = Scores(values, self.scores.higher, self.scores.items)
        find = _Finder(ranking, uncertainty, note, self.table, self._parts)
        base = find.drawn(shifted)
        oriented, backbones = shifted.oriented(), len(self.backbones)

        yield from find.rows("mean_rank", standings.mean_rank, oriented, base, (1, backbones))
        if chances is not None:
            yield from self._chances(find, ranking, chances)
        yield from find.rows("win_rate", standings.win_rate, oriented, base, (0, 1))
        costly = None if base is None else base[:_COSTLY]
        yield from find.rows("elo", _elo, oriented, costly)
        if values.shape[-1] > 1:
            yield from find.rows(
                "improvement_over_rest",
                standings.improvement_over_rest,
                values * self.scores.signs[:, None, None],
                find.runs(shifted, costly),
                (0, 1),
            )
        yield from find.rows("improvability", _improvability, oriented, base, (0, 1))
        yield from self._means(find, base, oriented, ranking)
        yield from self._normalised(find, ranking)

    def _chances(self, find: _Finder, ranking: Ranking, found: Chances):
        """Statistics of the hierarchical model: expected ranks, rank probabilities, losses."""
        more = np.sum(~self.table.measured.ranked)
        note = f"also from {more} datasets without all backbones" if more else ""
        note = "without what is filled in" if self.table.imputed.any() else note
        ranks, apart = found.ranks, found.apart(ranking.confidence)
        ends = (1 - ranking.confidence) / 2, (1 + ranking.confidence) / 2
        mean, between = ranks.mean(axis=0), ranks_possible(apart).T
        order = np.argsort(mean, kind="stable")
        columns = {"value": mean, "rank": standings.ranks_within(-mean)}
        columns |= dict(zip(("lower", "upper"), np.quantile(ranks, ends, axis=0), strict=True))
        columns |= dict(zip(("rank_low", "rank_high"), between, strict=True))
        columns["letters"] = np.array(compact_letters(apart, order))
        yield find.columns("expected_rank", columns, ranks, note, False)
        for name, places in (("probability_best", 1), ("probability_top3", 3)):
            if places < len(self.backbones):
                value = found.of_rank(places)
                columns = {"value": value, "rank": standings.ranks_within(value)}
                yield find.columns(name, columns, ranks, note, True)
        if len(self.metrics) == 1 or self._shares:
            value = found.loss.mean(axis=0)
            columns = {"value": value, "rank": standings.ranks_within(-value)}
            bounds = np.quantile(found.loss, ends, axis=0)
            columns |= dict(zip(("lower", "upper"), bounds, strict=True))
            yield find.columns("expected_loss", columns, ranks, note, False)

    def _means(self, find: _Finder, base, oriented, ranking: Ranking):
        """Means of raw scores: of one metric, or of several that are all in [0, 1]."""
        shares = self._shares
        if len(self.metrics) > 1 and not shares:
            return
        mixed = f"averages {', '.join(self.metrics)}" if len(self.metrics) > 1 else ""
        if ranking.baseline in self.backbones:
            place = self.backbones.index(ranking.baseline)
            note = _joined(f"over {ranking.baseline}", mixed)
            for rows in find.rows(
                "gain", lambda values: standings.mean_gain(values, place), oriented, base, note=note
            ):
                # the gain over itself is 0 by definition
                rows[place] |= {} if base is None else {"lower": 0.0, "upper": 0.0}
                yield rows
        # a single metric has one best value and one direction
        sign, best = self.scores.signs[0], self.best_possible[0]
        better = bool(sign > 0)
        limits = (0, 1) if shares else (-np.inf, np.inf)
        for name, mean in (("mean", np.mean), ("iqm", standings.interquartile_mean)):
            yield from find.rows(
                name,
                lambda values, mean=mean: sign * mean(values, axis=-2) + best,
                oriented,
                base,
                limits,
                higher_is_better=better,
                note=mixed,
            )

    def _normalised(self, find: _Finder, ranking: Ranking):
        oriented, signs = self.scores.oriented(), self.scores.signs
        if ranking.reference is not None:
            try:
                low, high = standings.reference_bounds(oriented, self.backbones, *ranking.reference)
            except PermafrostError as error:
                yield from find.absent("normalised_mean", len(self.backbones), error.problem)
                return
            note = f"0 and 1 are {' and '.join(ranking.reference)}"
        elif ranking.bounds is not None and set(self.table.datasets) <= set(ranking.bounds):
            given = np.array([ranking.bounds[name] for name in self.table.datasets], np.float64)
            low, high = np.where(signs[:, None] > 0, given, -given[:, ::-1]).T
            note = "bounds are given"
        else:
            return
        scale = (high - low)[:, None]
        scores = Scores(
            (self.scores.values * signs[:, None, None] - low[:, None, None]) / scale[..., None],
            np.ones(len(low), bool),
            self.scores.items
            and tuple(
                items * sign / one
                for items, sign, one in zip(self.scores.items, signs, scale, strict=True)
            ),
        )
        drawn, values = find.drawn(scores), scores.oriented()
        for name, mean in (
            ("normalised_mean", np.mean),
            ("normalised_iqm", standings.interquartile_mean),
        ):
            yield from find.rows(
                name, lambda v, mean=mean: mean(v, axis=-2), values, drawn, note=note
            )


def with_chances(asked: Sequence[Scored], ranking: Ranking) -> Iterator[tuple[int, Chances | None]]:
    """Yield the place of each of several scored groups with its chances, not in their order."""
    known = [one.uncertainty(ranking.uncertainty)[0] for one in asked]
    yield from ((place, None) for place, one in enumerate(known) if one == "none")
    drawn = [place for place, one in enumerate(known) if one != "none"]
    given = [(asked[place].table.measured, known[place]) for place in drawn]
    found = all_chances(given, draws=_PER_DRAW * ranking.draws, seed=ranking.seed)
    yield from ((drawn[number], one) for number, one in found)


@dataclass(frozen=True)
class _Finder:
    """Makes rows of statistics with intervals, confidence sets of ranks and letters."""

    ranking: Ranking
    uncertainty: str
    note: str
    table: Complete
    parts: int

    def drawn(self, scores: Scores) -> np.ndarray | None:
        """(B, D, K) draws, or None if nothing can be drawn."""
        if self.uncertainty == "none":
            return None
        options = {"draws": self.ranking.draws, "seed": self.ranking.seed}
        drawn = drawing.draw(scores, self.uncertainty, **options)
        return fill_draws(drawn, self._which(), self.table) if self.table.imputed.any() else drawn

    def _which(self) -> np.ndarray:
        options = {"draws": self.ranking.draws, "seed": self.ranking.seed}
        return drawing.drawn_datasets(len(self.table.datasets), self.uncertainty, **options)

    def runs(self, scores: Scores, drawn) -> np.ndarray | None:
        """(B, D, K, S) draws per seed: a seed's deviation from the mean stays with its dataset."""
        if drawn is None:
            return None
        which = self._which()[: len(drawn)]
        strayed = scores.values - np.nanmean(scores.values, axis=-1, keepdims=True)
        return drawn[..., None] + (strayed * scores.signs[:, None, None])[which]

    def rows(
        self,
        name: str,
        statistic: Callable,
        values,
        drawn,
        limits=(-np.inf, np.inf),
        *,
        higher_is_better: bool | None = None,
        note: str = "",
    ):
        """Yield the rows of one statistic, in the order of the backbones.

        Parameters
        ----------
        statistic : (…, D, K) or (…, D, K, S) to (…, K).
        values, drawn : observed scores, and their draws (B, …) or None.
        """
        better = STATISTICS[name].higher_is_better if higher_is_better is None else higher_is_better
        value = statistic(values)
        sign = 1 if better else -1
        columns = {
            "value": value,
            "rank": standings.ranks_within(sign * value),
        }
        if drawn is not None:
            found = _in_blocks(statistic, drawn)
            how: dict[str, Any] = {
                "datasets": None if self.uncertainty == "items" else len(self.table.datasets),
                "parts": self.parts,
                "confidence": self.ranking.confidence,
                "of_order": STATISTICS[name].of_order,
            }
            columns["lower"], columns["upper"] = drawing.interval(
                value, found, limits=limits, **how
            )
            alone = drawing.drawn_alone(self.table.scores, self.uncertainty)
            apart = drawing.told_apart(sign * value, sign * found, alone=alone, **how)
            columns["rank_low"], columns["rank_high"] = ranks_possible(apart).T
            columns["letters"] = np.array(
                compact_letters(apart, np.argsort(-sign * value, kind="stable"))
            )
        yield self.columns(name, columns, drawn, note, better)

    def absent(self, name: str, backbones: int, why: str):
        yield self.columns(name, {"value": [None] * backbones}, None, why, True)

    def columns(self, name: str, columns: dict, drawn, note: str, better: bool) -> list[dict]:
        common = {
            "statistic": name,
            "higher_is_better": better,
            "uncertainty": self.uncertainty,
            "draws": 0 if drawn is None else len(drawn),
            "note": _joined(note, self.note),
        }
        columns = {key: [_plain(one) for one in each] for key, each in columns.items()}
        return [
            {**common, **dict(zip(columns, row, strict=True))}
            for row in zip(*columns.values(), strict=True)
        ]


def _plain(value):
    """A number or text as a Python object; None if undefined."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _in_blocks(statistic: Callable, drawn) -> np.ndarray:
    """The statistic of every draw, computed in blocks that bound memory."""
    block = max(1, _TOGETHER // drawn[0].size)
    return np.concatenate(
        [statistic(drawn[start : start + block]) for start in range(0, len(drawn), block)]
    )


def _elo(values) -> np.ndarray:
    return elo(standings.pairwise_wins(values))[0]


def _improvability(values) -> np.ndarray:
    """Improvability from values minus the best possible; noise in draws may exceed this best."""
    errors = np.minimum(values, 0)
    return standings.improvability(errors, np.zeros(errors.shape[-2]))


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
