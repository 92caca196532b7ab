"""Slices of test sets: their scores from a folder of results, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from permafrost.core.errors import PermafrostError, look_up
from permafrost.core.stores import Store
from permafrost.core.tables import read_table
from permafrost.core.tasks import task_of
from permafrost.core.text import shortened
from permafrost.report.notation import NONE, interval, interval_of, number, p_value_text
from permafrost.report.tables.blocks import Block
from permafrost.report.tables.recorded import Recorded
from permafrost.statistics.leaderboard.rows import better_first, distinct, finite, metric_name
from permafrost.statistics.leaderboard.seeds import merge_seeds
from permafrost.statistics.slices.distance import DISTANCE, distances_to_train
from permafrost.statistics.slices.labels import Slicing
from permafrost.statistics.slices.sliced import MOST_TESTED, Sliced, score_slices

_LONGEST = 48  # letters of a slice's name in a terminal
_FOR_GROUPS = (
    "each image is a unit: this is about the images of these groups, and takes the images of one as"
    " independent of each other"
)


@dataclass(frozen=True)
class SlicedScores:
    """The scores on slices of one evaluation; `by` is the text that asks for them."""

    dataset: str
    probe: str
    backbone: str
    seed: int
    by: str
    scores: Sliced


@dataclass(frozen=True)
class SlicedResults(Recorded):
    """What slices of a folder of results are computed from.

    Attributes
    ----------
    rows : primary rows of whole test sets, of the leaderboard.
    """

    rows: list[dict]

    def evaluations(
        self,
        *,
        dataset: str | None = None,
        probe: str | None = None,
        backbone: str | None = None,
        seed: int | None = None,
    ) -> list[dict]:
        """One row of the leaderboard per dataset and probe: that of the best backbone, or the named.

        Without a seed, the lowest is taken.

        Raises
        ------
        PermafrostError : a name or a seed without a score.
        """
        # the queries of a retrieval are not independent images
        rows = [row for row in self.rows if task_of(row["task"]).of_datasets]
        asked = {"dataset": dataset, "probe": probe, "backbone": backbone, "seed": seed}
        for what, value in asked.items():
            if value is None:
                continue
            known = distinct(rows, what)
            remedy = f"name one of {', '.join(map(str, known)) or 'none'}"
            problem = f"there are no scores that have slices of the {what}"
            look_up(known, value, problem, remedy=remedy)
            rows = [row for row in rows if row[what] == value]
        found = []
        for key in dict.fromkeys((row["dataset"], row["probe"]) for row in rows):
            own = [row for row in rows if (row["dataset"], row["probe"]) == key]
            best = min(merge_seeds(own), key=better_first)["backbone"]
            found.append(
                min((row for row in own if row["backbone"] == best), key=lambda row: row["seed"])
            )
        return found

    def scores(self, row: Mapping, by: Slicing, **options) -> SlicedScores:
        """The scores on slices of an evaluation; options as in `score_slices`.

        Raises
        ------
        PermafrostError : its predictions or the places and dates of its samples are not here; as
            in `score_slices`.
        """
        names = {name: row[name] for name in ("dataset", "probe", "backbone", "seed")}
        made = self.planned("probe", **names)
        if not made:
            raise PermafrostError(
                f"the plan has no predictions of {row['backbone']} with {row['probe']}",
                where=row["dataset"],
                remedy="run snakemake again",
            )
        table, metadata = read_table(self.place(made[0]), expect=made[0]["fingerprint"])
        labels = by.labels(self._samples(table, row["dataset"], by))
        scores = score_slices(table, metadata, labels, of_groups=by.of_groups, **options)
        return SlicedScores(**names, by=by.name, scores=scores)

    def _samples(self, table: pa.Table, dataset: str, by: Slicing) -> pa.Table:
        """What slices need of the rows of a table of predictions, from the first store of the test split
        that is here.

        In predictions ``group_id`` is the sampling unit, which merges groups that hold copies of one image, so
        it stands for the group only if no store is left.
        """
        if {*by.needs} <= {"sample_id"}:
            return table
        names = {"dataset": dataset, "split": "test"}
        lacking: set[str] = set()
        for made in self.planned("prepare", **names) + self.planned("extract", **names):
            path = self.place(made)
            if path.exists():
                store = Store(path, expect=made["fingerprint"], split="test")
                samples = store.samples(["sample_id", "image_id", *by.needs])
                if DISTANCE in by.needs:
                    samples = self._with_distance(samples, store, made)
                if {*by.needs} <= {*samples.column_names}:
                    return samples_like(table, samples)
                lacking = {*by.needs} - {*samples.column_names} - {DISTANCE}
        if {*by.needs} <= {*table.column_names}:
            return table
        if lacking:
            raise PermafrostError(
                f"images of {dataset} have no {' or '.join(sorted(lacking))}",
                where=f"slices by {by.name}",
                remedy="slice by group, or by FILE:COLUMN",
            )
        raise PermafrostError(
            f"places and dates of {dataset} are in its stores, and none of them is here",
            where=f"slices by {by.name}",
            remedy="run snakemake, or slice by group or by FILE:COLUMN, which need no store",
        )

    def _with_distance(self, samples: pa.Table, test: Store, made: Mapping) -> pa.Table:
        """The samples of a store with their distances; as they are if the store of train is not here."""
        names = {name: made[name] for name in ("dataset", "backbone") if name in made}
        (other,) = self.planned(made["stage"], **names, split="train")
        if not self.place(other).exists():
            return samples
        train = Store(self.place(other), expect=other["fingerprint"], split="train")
        return samples.append_column(DISTANCE, pa.array(distances_to_train(test, train)))


def samples_like(table: pa.Table, samples: pa.Table) -> pa.Table:
    """The samples of a store, one row for each row of a table of predictions, in its order.

    Objects are predicted on whole images, whose windows are the samples: the first one stands for
    an image.

    Raises
    ------
    PermafrostError : the store lacks a sample of the table.
    """
    key = "image_id" if "image_id" in samples.column_names else "sample_id"
    place: dict[str, int] = {}
    for row, name in enumerate(samples[key].to_pylist()):
        place.setdefault(name, row)
    names = table["sample_id"].to_pylist()
    missing = next((name for name in names if name not in place), None)
    if missing is not None:
        raise PermafrostError(
            f"the store of the test samples lacks {missing!r}, which was predicted",
            remedy="run snakemake again",
        )
    return samples.take(pa.array([place[name] for name in names], pa.int64()))


def slice_rows(found: SlicedScores) -> list[dict]:
    """One row per slice, with what holds for all of them in each."""
    scores = found.scores
    every = {
        name: getattr(scores, name) for name in ("spread", "gap", "gap_by_chance", "n_unknown")
    }
    every |= {
        "worst": scores.worst and scores.worst.slice,
        "worst_lower": scores.bounds[0],
        "worst_upper": scores.bounds[1],
    }
    names = {name: getattr(found, name) for name in ("dataset", "probe", "backbone", "seed", "by")}
    return [
        {
            **names,
            "slice": one.slice,
            "metric": scores.metric,
            **{name: getattr(one, name) for name in ("value", "lower", "upper")},
            "confidence": scores.confidence,
            **{name: getattr(one, name) for name in ("n_test", "n_units")},
            "unit": scores.unit,
            **{name: getattr(one, name) for name in ("rest", "judged", "p_adjusted")},
            **every,
            "gates": ";".join(one.gates),
        }
        for one in scores.slices
    ]


def slice_block(found: SlicedScores) -> Block:
    """Slices as text: score and interval of each, the rest of the test set, and which is worse."""
    scores = found.scores
    # answers of several repetitions to one image
    repeated = scores.unit == "image" and any(one.n_units < one.n_test for one in scores.slices)
    several = repeated or scores.unit == "group"
    units = ["answers", "images"] if repeated else ["images", "groups"] if several else ["images"]
    header = [shortened(found.by, _LONGEST), *units]
    header += ["value", "interval", "rest", "p adjusted", ""]
    lines = [
        [
            shortened(one.slice, _LONGEST),
            str(one.n_test),
            *([str(one.n_units)] if several else []),
            number(one.value),
            interval_of({"lower": one.lower, "upper": one.upper}),
            number(one.rest),
            p_value_text(one.p_adjusted) if one.judged else NONE,
            "worse than the rest" if one in scores.worse else "" if one.judged else "not judged",
        ]
        for one in scores.slices
    ]
    head = (
        f"{found.dataset} · {found.probe} · {found.backbone} · {metric_name(scores.metric)} by {found.by} "
        f"({100 * scores.confidence:g} % intervals)"
    )
    right = frozenset({*units, "value", "rest", "p adjusted"})
    said = slice_words(scores, of_groups=found.by == "group")
    return Block(head, [header, *lines], right, "\n".join(f"  {words}" for words in said))


def slice_words(scores: Sliced, *, of_groups: bool = False) -> list[str]:
    """What the slices of an evaluation say, in sentences without a capital or a full stop."""
    said = []
    left = len(scores.slices) - len(scores.judged)
    if left:
        few = f"not judged, with less than {scores.least} {scores.unit}s or no value"
        said.append(f"{few}: {left} of {len(scores.slices)} slices")
    if len(scores.judged) > 1:
        said += _judged_words(scores)
    elif scores.judged:
        said.append("only one slice has enough units; a comparison needs two")
    else:
        said.append("no slice has enough units; a comparison needs two")
    if scores.n_unknown:
        said.append(f"left out, because their slice is not known: {scores.n_unknown} images")
    if of_groups:
        said.append(_FOR_GROUPS)
    return said


def _judged_words(scores: Sliced) -> list[str]:
    """The worst slice, those that are worse than the rest, and how far slices differ."""
    worst, count = scores.worst, len(scores.judged)
    bounds = interval(*scores.bounds) or "nothing is known"
    said = [
        f"worst: {worst.slice}, {number(worst.value)}; with {100 * scores.confidence:g} % confidence"
        f" for all {count} judged slices together {bounds}"
    ]
    if finite(worst.p_adjusted):
        names = ", ".join(one.slice for one in scores.worse)
        said.append(
            f"significantly worse than the rest, of {count} judged: {names}"
            if names
            else "no slice is significantly worse than the rest"
        )
    elif count > MOST_TESTED:
        said.append(f"no test, because more than {MOST_TESTED} slices are judged: use fewer")
    by_chance = scores.gap_by_chance
    chance = f", where chance alone gives {number(by_chance)}" if finite(by_chance) else ""
    spread = f"standard deviation of the true scores: {number(scores.spread)}"
    return [*said, f"best less worst: {number(scores.gap)}{chance}; {spread}"]
