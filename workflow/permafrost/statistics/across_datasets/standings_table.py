"""Who is best over many datasets: one row per group of datasets, probe, backbone and statistic.

A group is ranked under a probe on the datasets on which every backbone has a score; `missing` says what else can be
asked for. The others are named in the column ``left_out``, and what is filled in, in ``imputed``. What is drawn for
the intervals, and when, is in `draws`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from permafrost.core.errors import PermafrostError
from permafrost.core.tables import metadata_of
from permafrost.metrics.tasks import metric_of
from permafrost.statistics.across_datasets import draws as drawing
from permafrost.statistics.across_datasets import standings
from permafrost.statistics.across_datasets.draws import Scores
from permafrost.statistics.across_datasets.elo import elo
from permafrost.statistics.across_datasets.letters import compact_letters, ranks_possible
from permafrost.statistics.across_datasets.missing import Complete, complete, fill_draws
from permafrost.statistics.across_datasets.tested import tested
from permafrost.statistics.tables import read_columns, table_of

COLUMNS = read_columns(Path(__file__).with_name("standings_columns.json"))
#: in the name of a group that entries made
MADE = ":"
# a standard deviation is known to 5 % from that many draws, and ratings of each cost a fit
_COSTLY = 200
# numbers that are ranked together
_TOGETHER = 2_000_000


@dataclass(frozen=True)
class Statistic:
    """A number over datasets: its name, which direction is better, and whether it reads scores only as an order."""

    words: str
    higher_is_better: bool = True
    of_order: bool = False


#: in the order of the table; the first is what backbones are ranked by where one is needed
STATISTICS = {
    "mean_rank": Statistic("mean rank", higher_is_better=False, of_order=True),
    "probability_best": Statistic("probability of being best"),
    "probability_top3": Statistic("probability of being among the best three"),
    "win_rate": Statistic("win rate", of_order=True),
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
    uncertainty : of `draws.UNCERTAINTIES`.
    rope : differences of scores up to here are practically none.
    baseline : the backbone that gains are over; without its scores there are none.
    bounds : dataset to (low, high) of normalised statistics, or None.
    reference : (worst, best), two backbones whose scores are the bounds, or None.
    missing : what is done without a score, of `missing.MISSING`.
    """

    groups: dict[str, list[str]]
    uncertainty: str = "both"
    draws: int = 1000
    confidence: float = 0.95
    seed: int = 0
    rope: float = 0.01
    baseline: str | None = None
    bounds: dict[str, tuple[float, float]] | None = None
    reference: tuple[str, str] | None = None
    missing: str = "common"


def build_standings(
    tables: Iterable[pa.Table], ranking: Ranking, tests: list[dict] | None = None
) -> pa.Table:
    """Standings of all groups and probes.

    Parameters
    ----------
    tables : of scores, each with its metadata; those without a primary score (measures, profiles) are passed over.
    tests : gets what `tested.tested` finds, with its ``group`` and ``probe``.

    Raises
    ------
    PermafrostError : two backbones were evaluated on different test sets of one dataset.
    """
    rows: list[dict] = []
    fields = _read(tables)
    evaluated = {name for of_probe in fields.values() for name in of_probe}
    seen: set[tuple] = set()
    for group, datasets in ranking.groups.items():
        for probe, of_probe in sorted(fields.items()):
            asked = [name for name in datasets if name in of_probe]
            # a group that made itself and is another one under this probe, or one dataset
            again = (probe, frozenset(asked)) in seen or len(asked) < 2
            if asked and not (again and MADE in group):
                seen.add((probe, frozenset(asked)))
                absent = [name for name in datasets if name not in evaluated]
                rows += _rows(group, probe, asked, absent, of_probe, ranking, tests)
    return table_of(rows, COLUMNS)


@dataclass
class _Field:
    """The scores of all backbones on one dataset under one probe."""

    metric: str
    higher: bool
    test_set: str | None
    values: dict[str, dict[int, float]]  # backbone to seed to value
    strays: dict[str, list]  # backbone to those of each seed


def _read(tables: Iterable[pa.Table]) -> dict[str, dict[str, _Field]]:
    """Probe to dataset to its scores."""
    fields: dict[str, dict[str, _Field]] = {}
    for table in tables:
        primary = table.filter(table.column("primary")).to_pylist()
        about = metadata_of(table)
        for row in primary:
            of_probe = fields.setdefault(row["probe"], {})
            test_set = about.get("test_set")
            field = of_probe.setdefault(
                row["dataset"],
                _Field(row["metric"], row["higher_is_better"], test_set, {}, {}),
            )
            if field.test_set != test_set:
                raise PermafrostError(
                    f"the backbones {next(iter(field.values))!r} and {row['backbone']!r} were evaluated on"
                    f" different test samples of {row['dataset']!r}",
                    remedy="delete the predictions of both and run snakemake again",
                )
            if row["value"] is not None and not np.isnan(row["value"]):
                field.values.setdefault(row["backbone"], {})[row["seed"]] = row["value"]
                field.strays.setdefault(row["backbone"], []).append(about.get("strays"))
    return fields


def _rows(
    group: str, probe: str, asked: list[str], absent: list[str], fields: dict, ranking, tests
) -> list:
    backbones = sorted({name for dataset in asked for name in fields[dataset].values})
    if len(backbones) < 2:
        return []
    common = {
        "group": group,
        "probe": probe,
        "imputed": "",
        "confidence": ranking.confidence,
        "seed": ranking.seed,
    }
    rule = {"missing": ranking.missing, "baseline": ranking.baseline}
    try:
        table = complete(
            *_scores([fields[name] for name in asked], backbones),
            datasets=asked,
            backbones=backbones,
            **rule,
        )
        why = "" if table.datasets else "no dataset has scores of all backbones"
    except PermafrostError as error:  # the baseline has no score under this probe
        table, why = None, error.problem
    ranked = table.datasets if table else []
    common |= {
        "n_datasets": len(ranked),
        "datasets": ";".join(ranked),
        "left_out": ";".join([*(name for name in asked if name not in ranked), *absent]),
    }
    if not ranked:
        nothing = {"note": why, "uncertainty": "none", "statistic": RANKED_BY}
        return [{**_EMPTY, **common, **nothing, "backbone": name} for name in backbones]
    metrics = list(dict.fromkeys(fields[name].metric for name in ranked))
    imputed = {
        name: ";".join(itertools.compress(ranked, column))
        for name, column in zip(backbones, table.imputed.T, strict=True)
    }
    scored = _Scored(table, backbones, metrics)
    if tests is not None:
        tests.append({"group": group, "probe": probe, **scored.tests(ranking)})
    return [
        {**_EMPTY, **common, "backbone": name, "imputed": imputed[name], **row}
        for statistic in scored.statistics(ranking)
        for name, row in zip(backbones, statistic, strict=True)
    ]


def _scores(fields: list[_Field], backbones: list[str]) -> tuple:
    """(D, K, S) values with NaN where there are none, (D,) directions, and items where they are known."""
    seeds = sorted({seed for field in fields for one in field.values.values() for seed in one})
    values = [
        [[field.values.get(name, {}).get(seed, np.nan) for seed in seeds] for name in backbones]
        for field in fields
    ]
    items = [_items(field, backbones) for field in fields]
    higher = np.array([field.higher for field in fields])
    return np.array(values), higher, None if any(one is None for one in items) else items


_EMPTY = dict.fromkeys(COLUMNS.names) | {"note": ""}


@dataclass(frozen=True)
class _Scored:
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
        """(D,) a score of 1 or an error of 0."""
        return self.scores.higher.astype(float)

    def uncertainty(self, asked: str) -> tuple[str, str]:
        """What can be drawn of what is asked for (``none`` where nothing), and why it is not the same."""
        wanted = {"datasets", "items"} if asked == "both" else {asked}
        notes = []
        if len(self.table.datasets) < 2 and "datasets" in wanted:
            wanted = (wanted - {"datasets"}) | {"items"}
            notes.append("one dataset says nothing of others")
        if self.scores.items is None and "items" in wanted:
            wanted -= {"items"}
            notes.append("a test set is one unit, which says nothing of others")
        if len(wanted) == 2:
            return "both", ""
        return next(iter(wanted), "none"), "; ".join(notes)

    @property
    def _parts(self) -> int:
        """Parts of the smallest test set."""
        return min((one.shape[1] for one in self.scores.items or ()), default=0)

    @property
    def _shares(self) -> bool:
        """Whether all metrics are shares of 1 where more is better."""
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

    def statistics(self, ranking: Ranking):
        """Yield for each statistic its rows, one per backbone."""
        uncertainty, note = self.uncertainty(ranking.uncertainty)
        values = self.scores.values - self.best_possible[:, None, None]
        shifted = Scores(values, self.scores.higher, self.scores.items)
        find = _Finder(ranking, uncertainty, note, self.table, self._parts)
        base = find.drawn(shifted)
        oriented, backbones = shifted.oriented(), len(self.backbones)

        yield from find.rows("mean_rank", standings.mean_rank, oriented, base, (1, backbones))
        yield from find.chances(standings.mean_rank, base, backbones)
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

    def _means(self, find: _Finder, base, oriented, ranking: Ranking):
        """Means of scores as they are: of one metric, or of several that all are shares of 1."""
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
                # over itself, by definition
                rows[place] |= {} if base is None else {"lower": 0.0, "upper": 0.0}
                yield rows
        # one metric has one best possible value and one direction
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


@dataclass(frozen=True)
class _Finder:
    """Makes rows of statistics with intervals, ranks that are possible and letters."""

    ranking: Ranking
    uncertainty: str
    note: str
    table: Complete
    parts: int

    def drawn(self, scores: Scores) -> np.ndarray | None:
        """(B, D, K), or None where nothing can be drawn."""
        if self.uncertainty == "none":
            return None
        options = {"draws": self.ranking.draws, "seed": self.ranking.seed}
        drawn = drawing.draw(scores, self.uncertainty, **options)
        return fill_draws(drawn, self._which(), self.table) if self.table.imputed.any() else drawn

    def _which(self) -> np.ndarray:
        options = {"draws": self.ranking.draws, "seed": self.ranking.seed}
        return drawing.drawn_datasets(len(self.table.datasets), self.uncertainty, **options)

    def runs(self, scores: Scores, drawn) -> np.ndarray | None:
        """(B, D, K, S) seeds of draws: what a seed differs from the mean stays with its dataset."""
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
        values, drawn : at hand, and (B, …) drawn or None.
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
            how = {
                "datasets": None if self.uncertainty == "items" else len(self.table.datasets),
                "parts": self.parts,
                "confidence": self.ranking.confidence,
                "of_order": STATISTICS[name].of_order,
            }
            columns["lower"], columns["upper"] = drawing.interval(
                value, found, limits=limits, **how
            )
            apart = drawing.told_apart(sign * value, sign * found, **how)
            columns["rank_low"], columns["rank_high"] = ranks_possible(apart).T
            columns["letters"] = np.array(
                compact_letters(apart, np.argsort(-sign * value, kind="stable"))
            )
        yield self._columns(name, columns, drawn, note, better)

    def chances(self, ranked: Callable, drawn, backbones: int):
        """Yield the rows of the probabilities to be among the first."""
        if drawn is None:
            return
        found = standings.ranks_within(-_in_blocks(ranked, drawn))
        for name, places in (("probability_best", 1), ("probability_top3", 3)):
            if places < backbones:
                value = drawing.probability_of_rank(found, places)
                columns = {"value": value, "rank": standings.ranks_within(value)}
                yield self._columns(name, columns, drawn, "by mean rank", True)

    def absent(self, name: str, backbones: int, why: str):
        yield self._columns(name, {"value": [None] * backbones}, None, why, True)

    def _columns(self, name: str, columns: dict, drawn, note: str, better: bool) -> list[dict]:
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
    """A number or text of Python; None where it is not defined."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _in_blocks(statistic: Callable, drawn) -> np.ndarray:
    """The statistic of every draw, few enough at a time."""
    block = max(1, _TOGETHER // drawn[0].size)
    return np.concatenate(
        [statistic(drawn[start : start + block]) for start in range(0, len(drawn), block)]
    )


def _elo(values) -> np.ndarray:
    return elo(standings.pairwise_wins(values))[0]


def _improvability(values) -> np.ndarray:
    """Of values less the best possible, which noise in draws may bring beyond it."""
    errors = np.minimum(values, 0)
    return standings.improvability(errors, np.zeros(errors.shape[-2]))


def _items(field: _Field, backbones: list[str]) -> np.ndarray | None:
    """(K, J) mean over seeds of what parts of the test set contribute, NaN without a score; None where unknown."""
    known = {name: seeds for name, seeds in field.strays.items()}
    if any(one is None for seeds in known.values() for one in seeds) or not known:
        return None
    means = {name: np.mean(seeds, axis=0) for name, seeds in known.items()}
    nothing = np.full_like(next(iter(means.values())), np.nan)
    return np.array([means.get(name, nothing) for name in backbones])


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
